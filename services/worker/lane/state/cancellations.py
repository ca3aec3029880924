"""Cancellations in a lane: each is kept until its request has ended, read or not yet read."""

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from answerbus.cause import Cancelled
from answerbus.control import Cancel
from answerbus.private.runs import RunCancelRecord, cancel_key, runs_key
from answerbus.request_key import RequestKey
from services.worker.core.request.lane_request import LaneRequest
from services.worker.lane.state import records
from services.worker.ports.kafka import OutRecord

CANCELS_KEPT = timedelta(days=1)  # of requests that were not read yet
CANCELS_MAX = 10_000


@dataclass(slots=True)
class Cancellations:
    """See the module. `found` are their records by key, oldest first."""

    partition: int
    found: dict[str, RunCancelRecord] = field(default_factory=dict)

    def add(
        self,
        control: Cancel,
        lane_requests: Sequence[LaneRequest],
        until: datetime,
        open_requests: Container[RequestKey],
        now: datetime,
    ) -> list[OutRecord]:
        """Remember what is cancelled: these requests, and what was published `until` then.

        Of a workflow one record says it all, however many requests it has.
        """
        written = self._forget(open_requests, now)
        of_workflow = control.request_id is None or control.scope == "workflow"
        named = {control.request_id, *(one.request.request_id for one in lane_requests)}
        for name in {None} if of_workflow else sorted(name for name in named if name):
            record = RunCancelRecord(
                request_id=name,
                workflow_id=control.workflow_id,
                by=control.by,
                reason=control.reason,
                at=until,
            )
            self.found.pop(runs_key(record), None)  # the newest are last
            self.found[runs_key(record)] = record
            written.append(records.run_event_record(record, self.partition))
        return written

    def cause_of(self, lane_request: LaneRequest) -> Cancelled | None:
        """Why a request is cancelled, if it is."""
        found = self._record_of(lane_request) if self.found else None
        return Cancelled(by=found.by, reason=found.reason) if found else None

    def end(self, lane_request: LaneRequest) -> list[OutRecord]:
        """The request has its outcome: a successor need not know of its cancellation."""
        key = cancel_key(lane_request.request.request_id, lane_request.request.workflow_id)
        return [records.run_tombstone(key, self.partition)] if self.found.pop(key, None) else []

    def _record_of(self, lane_request: LaneRequest) -> RunCancelRecord | None:
        """That of the request itself, or that of its workflow if the request was there before."""
        request, published_at = lane_request.request, lane_request.origin.timestamp
        found = self.found.get(cancel_key(request.request_id, request.workflow_id))
        if found and published_at - found.at <= CANCELS_KEPT:
            return found
        found = self.found.get(cancel_key(None, request.workflow_id))
        return found if found and published_at <= found.at else None

    def _forget(self, open_requests: Container[RequestKey], now: datetime) -> list[OutRecord]:
        """Those whose requests have not come in time, and the oldest of too many.

        That of a request which has not ended yet stays: a successor must know of it.
        """
        forgotten: list[str] = []
        for key, found in self.found.items():
            is_old = now - found.at > CANCELS_KEPT
            if not is_old and len(self.found) - len(forgotten) < CANCELS_MAX:
                break  # the oldest are first
            about = found.request_id and RequestKey(found.workflow_id, found.request_id)
            if not about or about not in open_requests:
                forgotten.append(key)
        for key in forgotten:
            del self.found[key]
        return [records.run_tombstone(key, self.partition) for key in forgotten]
