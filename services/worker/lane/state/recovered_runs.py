"""Open runs, recovered from the private topic of a partition."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from answerbus.envelope import Headers
from answerbus.private.runs import (
    RunCallRecord,
    RunCancelRecord,
    RunChildRecord,
    RunRecord,
    RunsRecord,
    RunStepRecord,
    head_key,
    runs_key,
)
from answerbus.request_key import RequestKey
from services.worker.core.request.lane_request import (
    LaneRequest,
    request_from_child,
    request_from_run,
)
from services.worker.core.run.new_run import recovered_run
from services.worker.core.run.run import Run


@dataclass(slots=True)
class RecoveredRuns:
    """The last word of each key."""

    _found: dict[str, RunsRecord] = field(default_factory=dict)
    _heads: dict[str, tuple[Headers, int]] = field(default_factory=dict)

    def take(self, record: RunsRecord, headers: Headers, size_bytes: int) -> None:
        key = runs_key(record)
        self._found[key] = record
        if isinstance(record, RunRecord | RunChildRecord):
            self._heads[key] = headers, size_bytes

    def end(self, key: bytes | None) -> None:
        name = (key or b"").decode(errors="replace")
        self._found.pop(name, None)
        self._heads.pop(name, None)

    @property
    def cancels(self) -> dict[str, RunCancelRecord]:
        """Cancelled requests that may have no outcome yet, oldest first, by key."""
        found = (record for record in self._found.values() if isinstance(record, RunCancelRecord))
        return {runs_key(one): one for one in sorted(found, key=lambda one: one.at)}

    def runs(self) -> Iterator[tuple[str, RunRecord, Run]]:
        """The open runs, each with the record with which it begins, and its key."""
        steps: dict[str, list[RunStepRecord]] = {}
        calls: dict[str, list[RunCallRecord]] = {}
        for record in self._found.values():
            match record:
                case RunStepRecord():
                    steps.setdefault(head_key(record), []).append(record)
                case RunCallRecord():
                    calls.setdefault(head_key(record), []).append(record)
                case _:
                    pass
        for name, head in self._found.items():
            if isinstance(head, RunRecord):
                yield name, head, recovered_run(head, steps.get(name, []), calls.get(name, []))

    def requests(self, listed: Mapping[RequestKey, LaneRequest]) -> list[LaneRequest]:
        """Those of open runs that no list of retries has; the others get their run."""
        found = []
        for name, head, run in self.runs():
            lane_request = listed.get(RequestKey.of(head.request))
            if lane_request is None:
                headers, size = self._heads[name]
                found.append(request_from_run(head, size, headers, run))
            else:
                lane_request.recover(run, head.workflow_id)
        return [*found, *self._children(listed)]

    def _children(self, listed: Mapping[RequestKey, LaneRequest]) -> Iterator[LaneRequest]:
        for name, record in self._found.items():
            if not isinstance(record, RunChildRecord):
                continue
            if lane_request := listed.get(RequestKey.of(record.request)):
                lane_request.recover(lane_request.run, record.workflow_id)
            else:
                headers, size = self._heads[name]
                yield request_from_child(record, size, headers)
