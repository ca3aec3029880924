"""A past with much of everything, to see that each page stays short."""

from collections.abc import Iterator
from itertools import count
from typing import Any

from answerbus.envelope import Undecodable, decode, encode
from answerbus.event import Event
from answerbus.topics import TOPIC_OF_KIND
from services.operators.dead_letters.moment import as_text
from services.operators.records.stored import Stored
from tests.unit.console.context import Site
from tests.unit.operators.runs.events import (
    WORKFLOW,
    approval_asked,
    asked,
    attempt,
    call,
    decided,
    ended,
    parent,
    result,
    step,
)
from tests.unit.operators.stored_examples import MINUTE_MS, NOON_MS, stored

NAMES = 14  # contracts, profiles and models
LANES = 256
STEPS = 24  # of the longest run
ACTIONS = 90
OPEN_RUNS = 60
ARGS = {"order_id": "4711", "note": "The parcel came open, and half of it was gone. " * 3}
APPROVED = 22  # the step whose refund a person approved
BEGAN_MS = NOON_MS - 8 * MINUTE_MS


def many_records() -> list[Stored]:
    """All of it, in the order of its time."""
    found = [*_traffic(), *_operated(), *_of_runs([*_long_run(), *_open_runs()])]
    return sorted(found, key=lambda one: one.at_ms)


def long_run() -> list[Stored]:
    """One workflow: three runs that ended, and one of many steps that awaits approval."""
    return list(_of_runs(list(_long_run())))


def fill_site(here: Site) -> None:
    """What the broker says of it."""
    polled = here.context.poller.results
    polled.lag = {lane: lane % 7 for lane in range(LANES)}
    polled.committed = dict.fromkeys(range(LANES), 0)


def _traffic() -> Iterator[Stored]:
    """An hour of calls and outcomes of many contracts at many profiles."""
    for number in range(NAMES * 12):
        name, at_ms = number % NAMES, NOON_MS - (number % 59) * MINUTE_MS
        ids: dict[str, Any] = {"request_id": f"t-{number}", "workflow_id": f"w-{number}"}
        model = {
            "profile": f"profile-{name:02}",
            "provider": "openai",
            "model": f"a-model-with-a-long-name-{name:02}",
            "dialect": "openai",
        }
        digest = f"sha256:{name:064d}"
        schema = {"kind": "contract", "name": f"contract_{name:02}", "version": 1, "digest": digest}
        yield stored("request/minimal", at_ms - 500, number, number % LANES, **ids)
        yield stored("attempt/result", at_ms, number, **ids, model=model, schema_digest=digest)
        labels = {"tenant": f"tenant-{name}"}
        yield stored(
            "result/dep_bump", at_ms + 50, number, **ids, schema=schema, model=model, labels=labels
        )
    for lane in range(LANES):
        yield stored("lane/lane", NOON_MS - 60 * MINUTE_MS, lane, lane)


def _operated() -> Iterator[Stored]:
    """Dead letters that operators replayed or dismissed, each for a reason of its own."""
    for number in range(ACTIONS):
        at_ms, dead_letter = NOON_MS - number * MINUTE_MS, f"done-{number}.dead-letter"
        example = "dismissed/dismissed" if number % 2 else "replayed/unchanged"
        about: dict[str, Any] = {"request_id": f"done-{number}", "workflow_id": f"done-{number}"}
        died = {**about, "dead_letter_id": dead_letter, "at": as_text(at_ms - MINUTE_MS)}
        yield stored("dead_letter/unknown_profile", at_ms - MINUTE_MS, 5_000 + number, **died)
        yield stored(
            example,
            at_ms,
            5_000 + number,
            dead_letter_id=dead_letter,
            workflow_id=about["workflow_id"],
            at=as_text(at_ms),
            by=f"person-{number}@acme.example",
            reason=f"the supplier has no order of that number ({number})",
        )


def _long_run() -> Iterator[Event]:
    for turn in range(3):
        name, second = f"turn-{turn}", turn * 10.0
        yield asked(name, agent={"name": "support"})
        yield from _step(name, 1, second, call(name, 1))
        yield ended(f"{name}.call.1.0", took_ms=400, at=_at(second + 2))
        yield result(name, finished_at=_at(second + 3))
    yield asked("support", agent={"name": "support"})
    for n in range(1, STEPS + 1):
        second = 60.0 + 15 * n
        refund = call("support", n, 1, tool="orders.refund")
        refund["state"] = "awaits_approval" if n in (APPROVED, STEPS) else "called"
        yield from _step("support", n, second, call("support", n, args=ARGS), refund)
        yield ended(f"support.call.{n}.0", at=_at(second + 4), took_ms=3_000)
        if refund["state"] == "awaits_approval":
            yield approval_asked(refund["call_id"], args=ARGS, at=_at(second + 1))
        if n == APPROVED:
            yield decided(refund["call_id"], at=_at(second + 5))
        if n < STEPS:
            example = "error" if n % 6 == 0 else "ok"
            yield ended(refund["call_id"], example, at=_at(second + 8), took_ms=5_000)
    child = f"support.call.{STEPS}.0"
    yield asked(child, parent=parent(child))
    yield attempt(
        child, 1, outcome="result", duration_ms=1_200, started_at=_at(second + 1), failure=None
    )


def _step(name: str, n: int, second: float, *calls: dict[str, Any]) -> Iterator[Event]:
    took_ms = 800 + 140 * n
    begun = _at(second - took_ms / 1_000)
    yield attempt(name, n, duration_ms=took_ms, started_at=begun, failure=None)
    yield step(name, n, *calls, at=_at(second))


def _open_runs() -> Iterator[Event]:
    """Runs of other workflows, half of which await a person."""
    for number in range(OPEN_RUNS):
        name = f"return-{number:03}"
        yield of_another(asked(name, agent={"name": "returns"}), name)
        if number % 2:
            yield of_another(approval_asked(f"{name}.call.1.0", args=ARGS), name)


def of_another(event: Event, workflow_id: str) -> Event:
    """The same event, in a workflow of its own."""
    return decoded(encode(event).value.replace(WORKFLOW.encode(), workflow_id.encode()))


def decoded(value: bytes) -> Event:
    found = decode(value)
    assert not isinstance(found, Undecodable), found
    return found


def _of_runs(events: list[Event]) -> Iterator[Stored]:
    """Each at its own time; what has none at that of the event before it."""
    offsets, at_ms = count(9_000), BEGAN_MS
    for event in events:
        reported = getattr(event, "at", None) or getattr(event, "started_at", None)
        at_ms = int(reported.timestamp() * 1000) if reported else at_ms
        topic, value = TOPIC_OF_KIND[event.kind], encode(event).value
        yield Stored(topic, 0, next(offsets), at_ms, b"k", value, ())


def _at(second: float) -> str:
    return as_text(BEGAN_MS + round(second * 1000))
