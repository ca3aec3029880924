"""Open runs, recovered from the private topic of a partition."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

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
from services.worker.core.run.new_run import new_run
from services.worker.core.run.run import Run


@dataclass(slots=True)
class RecoveredRuns:
    """The last word of each key."""

    _found: dict[str, RunsRecord] = field(default_factory=dict)
    _heads: dict[str, tuple[Headers, int]] = field(default_factory=dict)

    def take(self, record: RunsRecord, headers: Headers, size_bytes: int) -> None:
        """One record."""
        key = runs_key(record)
        self._found[key] = record
        if isinstance(record, RunRecord | RunChildRecord):
            self._heads[key] = headers, size_bytes

    def end(self, key: bytes | None) -> None:
        """A null value."""
        name = (key or b"").decode(errors="replace")
        self._found.pop(name, None)
        self._heads.pop(name, None)

    @property
    def cancels(self) -> dict[str, RunCancelRecord]:
        """What was cancelled and may have no outcome yet, oldest first, by key."""
        found = (record for record in self._found.values() if isinstance(record, RunCancelRecord))
        return {runs_key(one): one for one in sorted(found, key=lambda one: one.at)}

    def runs(self) -> dict[RequestKey, Run]:
        """The open runs by request."""
        return {RequestKey.of(self._head(name).request): run for name, run in self._runs().items()}

    def _runs(self) -> dict[str, Run]:
        """By the key of the record with which each begins."""
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
        return {
            name: _run(head, steps.get(name, []), calls.get(name, []))
            for name, head in self._heads_of()
        }

    def requests(self, listed: Mapping[RequestKey, LaneRequest]) -> list[LaneRequest]:
        """Those of open runs that no list of retries has; the others get their run."""
        found = []
        for name, run in self._runs().items():
            head = self._head(name)
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

    def _head(self, name: str) -> RunRecord:
        head = self._found[name]
        if not isinstance(head, RunRecord):
            raise TypeError("a run begins with its own record")
        return head

    def _heads_of(self) -> list[tuple[str, RunRecord]]:
        return [(key, one) for key, one in self._found.items() if isinstance(one, RunRecord)]


def _run(head: RunRecord, steps: list[RunStepRecord], calls: list[RunCallRecord]) -> Run:
    """Up to the first step that is missing, which an operator has passed by; see `lanes skip`."""
    run = new_run(head.definition, head.request)
    taken = run.steps
    for step in sorted(steps, key=lambda step: step.n):
        if step.n == len(taken) + 1:
            taken = (*taken, step)
    by_id = {
        taken[record.n - 1].calls[record.place].call_id: record
        for record in sorted(calls, key=lambda one: (one.n, one.place))
        if record.n <= len(taken) and record.place < len(taken[record.n - 1].calls)
    }
    links = [step.link for step in (*run.steps, *steps)]
    links += [call.link for call in calls if call.link]
    last = max(links, key=lambda link: link.number, default=None)
    return replace(run, steps=taken, calls={**run.calls, **by_id}, link=last)
