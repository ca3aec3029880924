"""G6: the calls of a workflow come one after the other, in the order in which it was asked."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from tests.chaos.audit.history import Call, History, Violation, is_ordered


@dataclass(frozen=True, slots=True)
class Turn:
    """A call in the order of its workflow: `place` is the offset of its request's first record."""

    started: datetime
    place: int
    ended: datetime
    call: Call


def check(history: History) -> Iterator[Violation]:
    """Requests with `ordering: none` are outside, and so do children of runs."""
    workflows: dict[str, list[Turn]] = defaultdict(list)
    for call in history.calls:
        request = history.requests.get(call.request_id)
        if request is not None and is_ordered(request) and not request.get("parent"):
            ended = _ended(history, call)
            if ended is not None:
                place = history.accepted[call.request_id][0].place[1]
                workflows[request["workflow_id"]].append(Turn(call.started, place, ended, call))
    for workflow_id, turns in workflows.items():
        turns.sort(key=lambda turn: (turn.started, turn.place, turn.call.attempt))
        yield from _in_order(workflow_id, turns)


def _in_order(workflow_id: str, turns: list[Turn]) -> Iterator[Violation]:
    for before, turn in pairwise(turns):
        this, that = (f"{t.call.request_id}.attempt.{t.call.attempt}" for t in (turn, before))
        if turn.started < before.ended:
            text = f"{this} was called at {turn.started}, while {that} ran until {before.ended}"
            yield Violation("G6", workflow_id, text)
        if turn.place < before.place:
            yield Violation("G6", workflow_id, f"{this} was called after {that}, asked for later")


def _ended(history: History, call: Call) -> datetime | None:
    """When the call stopped to matter; None for one that was written off before it was made.

    The call of a worker that was frozen or cut off may last longer than the worker owns the
    workflow: it ends where its successor writes it off.
    """
    attempts = history.attempts.get((call.request_id, call.attempt), [])
    if attempts and attempts[0].body["outcome"] == "unknown":
        written_off = attempts[0].record.timestamp
        if call.started >= written_off:
            return None
        return min(written_off, call.ended or written_off)
    return call.ended or datetime.max.replace(tzinfo=call.started.tzinfo)
