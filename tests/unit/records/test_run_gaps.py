"""A run of which a record is missing keeps its lane shut, until an operator accepts the loss."""

from collections.abc import Iterable
from itertools import count

import pytest

from answerbus.private.ledger import Skipped
from answerbus.private.runs import RunRecord, RunsRecord, runs_key
from answerbus.resumed_run import ResumedRun, ResumedStep
from answerbus.topics import RUNS
from answerbus.wire import bytes_digest
from services.commands.private_records import LaneContents
from services.operators.records.stored import Stored
from services.records.run_gaps import RunGaps
from services.worker.lane.opening import RecoveredState, UnreadableState
from services.worker.ports.kafka import StoredRecord
from tests.unit.worker.builders import NOW
from tests.unit.worker.core.run_builders import records_of_two_steps

KEYS = [runs_key(record) for record in records_of_two_steps()]
FIRST = KEYS.index("r-1/1")


def gaps(records: Iterable[RunsRecord]) -> RunGaps:
    found = RunGaps()
    for record in records:
        found.take(record, KEYS.index(runs_key(record)))
    return found


def without(place: int) -> list[RunsRecord]:
    whole = records_of_two_steps()
    return [*whole[:place], *whole[place + 1 :]]


def test_a_whole_run_has_no_gap_and_neither_has_one_that_has_ended() -> None:
    found = gaps(records_of_two_steps())
    assert list(found.missing()) == []
    for key in KEYS:
        found.end(key.encode())
    assert list(found.missing()) == []


@pytest.mark.parametrize(
    ("place", "what"), [(0, "the beginning of the run 'r-1'"), (FIRST, "step 1 of the run 'r-1'")]
)
def test_what_comes_first_after_a_missing_record_tells_of_it(place: int, what: str) -> None:
    found = gaps(without(place))
    ((offset, why),) = found.missing()
    assert offset == min(
        KEYS.index(runs_key(one)) for one in without(place) if "/" in runs_key(one)
    )
    assert why == f"{what}, before this record, is missing"

    found.skip(offset)
    assert list(found.missing()) == []


@pytest.mark.parametrize("place", [0, FIRST])
def test_a_record_that_cannot_be_read_is_no_gap(place: int) -> None:
    found = gaps(without(place))
    found.take_unreadable(KEYS[place].encode(), place)
    assert list(found.missing()) == []


def test_steps_that_were_taken_over_are_not_missing() -> None:
    head, *others = without(FIRST)
    assert isinstance(head, RunRecord)
    resumed = ResumedRun(
        request_id="r-0",
        number=3,
        previous=bytes_digest(b"x"),
        steps=(ResumedStep(attempt=1, said=(), calls=()),),
    )
    head = head.model_copy(update={"request": head.request.model_copy(update={"resumed": resumed})})
    assert list(gaps([head, *others]).missing()) == []


def test_a_lane_stays_shut_and_operators_see_the_same_until_they_pass_it_by() -> None:
    offsets = count(40)
    recovered, shown = RecoveredState(), LaneContents(0)

    def write(key: str, value: bytes) -> None:
        offset = next(offsets)
        recovered.take(StoredRecord(RUNS, key.encode(), value, offset=offset))
        shown.take(Stored(RUNS, 0, offset, 0, key.encode(), value, ()))

    for record in without(FIRST):
        write(runs_key(record), record.model_dump_json().encode())
    shown.differ({})
    ((place, fault),) = [(one.stored.offset, one.fault.text) for one in shown.unreadable]
    with pytest.raises(UnreadableState, match=rf"^runs, offset {place}, cannot be read: {fault}"):
        recovered.settle()

    skip = Skipped(
        offset=place, digest=bytes_digest(b""), problem="?", by="ops", reason="lost", at=NOW
    )
    write("skipped", skip.model_dump_json().encode())
    recovered.settle()
    assert [step.n for _, _, run in recovered.runs.runs() for step in run.steps] == []
