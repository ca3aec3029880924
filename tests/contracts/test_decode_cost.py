"""No record costs more than its budget, whatever is in it: of each kind, as its readers read it."""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiokafka import ConsumerRecord

from answerbus.envelope import Undecodable, decode, decode_request
from answerbus.json_values import signs_of_values
from answerbus.limits import (
    EVENT_VALUES_MAX,
    RECORD_BYTES_MAX,
    REQUEST_BYTES_MAX,
    REQUEST_VALUES_MAX,
)
from answerbus.schema_export import event_models
from answerbus.topics import LEDGER, RETRIES
from services.records.private_topics import private_event, runs_event
from services.worker.adapters.kafka.arrivals import arrival
from services.worker.core.request.known_schemas import KnownSchemas
from services.worker.core.run.tool_report import read_report
from tests.cost.budget import ANYBODY, MARGIN, WORKERS, Budget, peak_bytes, spent

pytestmark = pytest.mark.wide  # each reads as much as a record may hold

EXAMPLES = Path(__file__).parents[2] / "contracts" / "examples"


def arrived(value: bytes) -> object:
    record = ConsumerRecord("requests", 0, 0, 0, 1, None, value, None, 0, len(value), ())
    return arrival(record, KnownSchemas())


# How each kind is read by the program whose loop matters most. Anybody may try to write any kind
# where applications, tools or operators write.
Read = Callable[[bytes], object]
LEDGER_READ: tuple[Read, Budget] = (partial(private_event, LEDGER), WORKERS)
RUNS_READ: tuple[Read, Budget] = (runs_event, WORKERS)
READ: Mapping[str, tuple[Read, Budget]] = {
    "request": (arrived, ANYBODY),
    "tool_result": (read_report, ANYBODY),
    "tool_progress": (read_report, ANYBODY),
    "tool_reconciled": (read_report, ANYBODY),
    "approval": (read_report, ANYBODY),
    "input": (read_report, ANYBODY),
    "cancel": (read_report, ANYBODY),
    "run_resumed": (read_report, ANYBODY),
    "budget_lease": (read_report, ANYBODY),
    "budget_share": (read_report, ANYBODY),
    "toolset": (decode, ANYBODY),
    "tool_accepted": (decode, ANYBODY),
    "tool_call": (decode, ANYBODY),
    "tool_continue": (decode, ANYBODY),
    "tool_cancel": (decode, ANYBODY),
    "tool_reconcile": (decode, ANYBODY),
    "result": (decode, ANYBODY),
    "unvalidated_result": (decode, ANYBODY),
    "refusal": (decode, ANYBODY),
    "dead_letter": (decode, ANYBODY),
    "replayed": (decode, ANYBODY),
    "dismissed": (decode, ANYBODY),
    "compared": (decode, ANYBODY),
    "attempt": (decode, ANYBODY),
    "step": (decode, ANYBODY),
    "tool_ended": (decode, ANYBODY),
    "approval_requested": (decode, ANYBODY),
    "input_requested": (decode, ANYBODY),
    "control_applied": (decode, ANYBODY),
    "budget_nearly_spent": (decode, ANYBODY),
    "retry_request": (partial(private_event, RETRIES), WORKERS),
    "skipped": LEDGER_READ,
    "account": LEDGER_READ,
    "closed": LEDGER_READ,
    "closed_ids": LEDGER_READ,
    "lane": LEDGER_READ,
    "run": RUNS_READ,
    "run_child": RUNS_READ,
    "run_step": RUNS_READ,
    "run_call": RUNS_READ,
    "run_cancel": RUNS_READ,
}
REPEATED = ("{}", "1.5e-300", '{"":0}')
NAMED = "names"  # members of an object, each with a name of its own
EACH = (*REPEATED, NAMED)
WORKERS_BYTES = RECORD_BYTES_MAX // 8  # bytes alone limit these, and cost grows with them
DEPTH_MAX = 1  # of the places where an example is changed


def test_each_kind_has_a_row() -> None:
    assert READ.keys() == event_models().keys()


def containers(value: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where lists and objects stand."""
    if isinstance(value, dict):
        yield place
        for name, member in value.items():
            yield from containers(member, (*place, name))
    elif isinstance(value, list):
        yield place
        for item in value[:1]:
            yield from containers(item, (*place, 0))


def put(document: Any, place: tuple[str | int, ...], value: Any) -> Any:
    if not place:
        return value
    first, *rest = place
    if isinstance(document, dict):
        return {**document, first: put(document[first], tuple(rest), value)}
    return [put(document[0], tuple(rest), value), *document[1:]]


def repeated(one: str, values_max: int, bytes_max: int) -> str:
    """As many of one value as so many values and bytes allow: items, or members with names."""
    if one == NAMED:
        names = ",".join(f'"{n}":{{}}' for n in range(min(values_max // 3, bytes_max // 12)))
        return f"{{{names}}}"
    count = min(values_max // (signs_of_values(one.encode()) + 1), bytes_max // (len(one) + 1))
    return f"[{','.join([one] * count)}]"


def amplified(
    kind: str, values_max: int, bytes_max: int, *, is_thorough: bool
) -> Iterator[tuple[str, bytes]]:
    """The first example with many values in each of its places, as many as are just read.

    Each of EACH in each place if thorough, else by turns: that takes minutes less.
    """
    example = json.loads(min((EXAMPLES / kind).glob("*.json")).read_bytes())
    places = [place for place in containers(example) if 0 < len(place) <= DEPTH_MAX]
    for number, place in enumerate(places):
        raw = json.dumps(put(example, place, "@"), separators=(",", ":"))
        left = (values_max - len(raw), bytes_max - len(raw) - 2)
        for one in EACH if is_thorough else [EACH[number % len(EACH)]]:
            yield f"{place} {one}", raw.replace('"@"', repeated(one, *left), 1).encode()
    raw = json.dumps(example)
    count = min((values_max - len(raw)) // 2, (bytes_max - len(raw)) // 12)
    more = ",".join(f'"_{n}":0' for n in range(count))
    yield "unknown members", f"{raw[:-1]},{more}}}".encode()


def limits_of(kind: str) -> tuple[int, int]:
    read, budget = READ[kind]
    if read is arrived:
        return REQUEST_VALUES_MAX, REQUEST_BYTES_MAX
    if budget is WORKERS:
        return WORKERS_BYTES, WORKERS_BYTES
    return EVENT_VALUES_MAX, RECORD_BYTES_MAX


# Kinds that others than workers write, and the result; all, thoroughly, in the long tests.
BY_OTHERS = {"toolset", "tool_accepted", "replayed", "dismissed", "compared", "result"}
CASES = [
    *(
        (kind, False)
        for kind, (read, budget) in READ.items()
        if kind in BY_OTHERS or (budget is ANYBODY and read is not decode)
    ),
    *(pytest.param(kind, True, marks=pytest.mark.long) for kind in READ),
]


@pytest.mark.wide
@pytest.mark.parametrize(("kind", "is_thorough"), CASES)
def test_what_is_just_read_stays_within_its_budget(kind: str, *, is_thorough: bool) -> None:
    read, budget = READ[kind]
    for name, text in amplified(kind, *limits_of(kind), is_thorough=is_thorough):
        found = read(text)
        assert "too_many_values" not in str(getattr(found, "problems", ())), name
        took = spent(partial(read, text))
        assert took.is_below(MARGIN * budget.loop_s), (kind, name, len(text), took)
        # Tracing memory takes ten times as long; the search for cost looks at it, too.
        if name.endswith(("{}", ":0}", "names", "members") if is_thorough else "members"):
            assert peak_bytes(partial(read, text)) <= budget.bytes_max(len(text)), (kind, name)


@pytest.mark.parametrize("one", [*REPEATED, '""', '"\\\\"', '"\\",\\""', ",", '"', "["])
@pytest.mark.parametrize(
    "read",
    [arrived, *(pytest.param(read, marks=pytest.mark.long) for read in (decode, read_report))],
)
def test_what_is_too_much_is_judged_and_not_read(read: Read, one: str) -> None:
    start = '{"request_id":"r-1","workflow_id":"w-1","prior":['
    text = (start + ",".join([one] * (REQUEST_BYTES_MAX // (len(one) + 1)))).encode()
    text = text[:REQUEST_BYTES_MAX]

    took = spent(partial(read, text))

    assert took.is_below(MARGIN * ANYBODY.loop_s), took
    assert peak_bytes(partial(read, text)) <= ANYBODY.bytes_max(len(text))


@pytest.mark.parametrize("size", [REQUEST_BYTES_MAX + 1, 16 * RECORD_BYTES_MAX])
def test_a_record_that_is_too_large_is_told_by_its_size_and_its_ids(size: int) -> None:
    start = b'{"request_id":"r-1","workflow_id":"w-1","text":"'
    found = decode_request(start + b"x" * (size - len(start)))

    assert isinstance(found, Undecodable)
    assert (found.request_id, found.workflow_id) == ("r-1", "w-1")
    (problem,) = found.problems
    assert (problem.code, problem.found) == ("too_large", f"{size:,} bytes")
