"""How suspicion is narrowed down: who is tried, with whom, who is cleared, who is given up."""

from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answerbus.limits import RECORD_BYTES_MAX
from answerbus.private.ledger import (
    LEDGER_RECORD,
    LaneRecord,
    Suspect,
    SuspectRecord,
    WorkInProgress,
)
from answerbus.request_key import RequestKey
from services.worker.lane.state.records import event_record
from services.worker.lane.state.suspects import (
    PREPARED_MAX,
    RECORD_MAX,
    SUSPECTS_MAX,
    Suspects,
    suspects_of,
)
from tests.unit.worker.builders import NOW

KILLS = 10
A, B = (RequestKey("w", name) for name in "ab")
LANE = LaneRecord(partitions=1, openings_without_progress=1, worker="w", at=NOW)


def key(name: str) -> RequestKey:
    return RequestKey("w", name)


def crashes_until_found(
    suspects: Suspects, poison: set[RequestKey], can_spare: Callable[[RequestKey], bool]
) -> int:
    """Crashes until no suspect is left but those that were given up; only poison crashes."""
    crashes = 0
    while left := [i for i in suspects.found if suspects.given_up(i) is None]:
        tried = suspects.next_tried(left, can_spare)
        assert tried
        if poison & set(tried):
            is_alone = len(tried) == 1 and suspects.needs_all(tried[0])
            mark = WorkInProgress(what="call", **tried[0]._asdict()) if is_alone else None
            suspects.blame(mark, set(tried))
            crashes += 1
        else:
            for request_id in tried:
                suspects.clear(request_id)
    return crashes


@given(
    count=st.integers(1, 120),
    poison=st.sets(st.integers(0, 119), max_size=3),
    poor=st.sets(st.integers(0, 119)),
)
def test_only_poison_is_given_up_after_a_bounded_number_of_crashes(
    count: int, poison: set[int], poor: set[int]
) -> None:
    names = [key(f"r-{number}") for number in range(count)]
    bad = {names[number] for number in poison if number < count}
    suspects = Suspects()
    for _ in range(2):
        suspects.blame(None, set(names))

    crashes = 2 + crashes_until_found(suspects, bad, lambda it: int(it.request_id[2:]) not in poor)

    assert set(suspects.found) == bad
    assert all((suspects.given_up(name) or 0) > KILLS for name in bad)
    assert crashes <= 2 + max(len(bad), 1) * (9 + count.bit_length())


def test_two_crashes_make_a_suspect_and_any_call_that_ends_clears_it() -> None:
    suspects = Suspects()
    suspects.blame(None, {A})
    assert not suspects.is_held(A)
    suspects.blame(None, {A, B})
    assert (suspects.is_held(A), suspects.is_held(B)) == (True, False)
    assert suspects.clear(A)
    assert not suspects.clear(A)
    assert not suspects.is_held(A)


@pytest.mark.parametrize("alone", [True, False])
def test_ten_crashes_are_never_enough(alone: bool) -> None:
    suspects = Suspects()
    for _ in range(KILLS):
        is_alone = alone and suspects.needs_all(A)
        suspects.blame(WorkInProgress(what="call", **A._asdict()) if is_alone else None, {A})
    assert suspects.given_up(A) is None


def test_what_ends_the_worker_before_its_call_is_held_at_once_and_soon_given_up() -> None:
    suspects = Suspects()
    mark = WorkInProgress(what="preparation", **A._asdict())
    for _ in range(PREPARED_MAX):
        assert suspects.given_up(A) is None
        suspects.blame(mark, {B})
        assert suspects.is_held(A) or suspects.given_up(A)
    assert suspects.given_up(A) == PREPARED_MAX
    assert suspects.given_up(B) is None


def test_a_record_is_given_up_at_its_own_place_alone() -> None:
    suspects = Suspects()
    for offset in (7, 8, 8, 8):
        suspects.blame(WorkInProgress(what="record", offset=offset), set())
    assert suspects.record == SuspectRecord(offset=8, crashes=RECORD_MAX)
    assert (suspects.record_given_up(7), suspects.record_given_up(8)) == (None, RECORD_MAX)
    suspects.pass_record(8)
    assert suspects.record is None


def test_the_most_suspect_are_kept_if_there_are_too_many() -> None:
    suspects = Suspects()
    names = {key(f"r-{number}") for number in range(SUSPECTS_MAX + 50)}
    suspects.blame(None, names)
    suspects.blame(None, {key("r-1049")})
    kept = suspects.listed()
    assert len(kept) == SUSPECTS_MAX
    assert "r-1049" in {suspect.request_id for suspect in kept}


@pytest.mark.parametrize("character", ["\x01", "\N{GRINNING FACE}", "w"])
def test_the_record_of_a_lane_fits_its_topic_whatever_ids_suspects_have(character: str) -> None:
    names = {RequestKey(f"{n:04d}".ljust(256, character), "r" * 128) for n in range(SUSPECTS_MAX)}
    suspects = Suspects()
    suspects.blame(None, names)
    lane = LANE.model_copy(update={"suspects": suspects.listed()})

    assert len(event_record(lane, 0).value or b"") < RECORD_BYTES_MAX
    assert len(lane.suspects) == SUSPECTS_MAX or character != "w"


@pytest.mark.wide
@pytest.mark.parametrize("count", [SUSPECTS_MAX, 3 * SUSPECTS_MAX + 7])
@pytest.mark.parametrize("places", [(0,), (-1,), (1_500, -1, 3)])
def test_more_in_flight_than_can_be_written_down_ends_as_well(
    count: int, places: tuple[int, ...]
) -> None:
    """One lane through its crashes; what a worker knows of the last is what was written down."""
    waiting = dict.fromkeys(key(f"r-{number:05}") for number in range(count))
    poison = {[*waiting][place % count] for place in places}
    written, crashes, given_up = LANE, 0, set[RequestKey]()
    while waiting:
        suspects = suspects_of(written, lambda name: name not in waiting)
        suspects.bound()
        while waiting:
            buried = {name for name in waiting if suspects.given_up(name)}
            given_up |= buried
            running = _started(waiting, suspects)
            tried = [] if running else suspects.next_tried([*suspects.found], lambda _: True)
            called = {*running, *tried} - buried
            assert buried or called, "it goes on"
            if poison & called:
                alone = len(tried) == 1 and suspects.needs_all(tried[0])
                mark = WorkInProgress(what="call", **tried[0]._asdict()) if alone else None
                held = {name for name in suspects.found if suspects.is_held(name)}
                assert not suspects.found or len(held | called) <= SUSPECTS_MAX
                suspects.blame(mark, dict.fromkeys([*running, *tried]).keys())
                suspects.bound()
                written = LANE.model_copy(update={"suspects": suspects.listed()})
                crashes += 1
                assert crashes <= len(poison) * 30 + count // SUSPECTS_MAX, "it has an end"
                for name in buried:
                    del waiting[name]
                break
            for name in buried | called:
                suspects.clear(name)
                waiting.pop(name, None)

    assert given_up == poison


def test_those_of_the_last_crash_are_kept_before_those_that_only_waited() -> None:
    suspects, certain = Suspects(), key("certain")
    suspects.blame(WorkInProgress(what="preparation", **certain._asdict()), set())
    suspects.blame(None, {key(f"old-{number}") for number in range(SUSPECTS_MAX)})
    suspects.bound()
    calls = [key(f"new-{number}") for number in range(SUSPECTS_MAX - 1)]
    assert suspects.has_room(calls[-1], calls[:-1])
    assert not suspects.has_room(key("one-more"), calls)
    suspects.blame(None, dict.fromkeys(calls).keys())
    suspects.bound()
    assert suspects.found.keys() == {certain, *calls}
    assert all(suspects.found[name].crashes == 1 for name in calls)


def _started(waiting: Iterable[RequestKey], suspects: Suspects) -> list[RequestKey]:
    """What a lane calls side by side, in the order in which it came."""
    running: list[RequestKey] = []
    for name in waiting:
        if not suspects.is_held(name) and suspects.has_room(name, running):
            running.append(name)
    return running


def test_records_without_suspects_are_read_and_closed_ones_are_removed() -> None:
    old = (
        b'{"kind":"lane","v":1,"partitions":12,"openings_without_progress":3,"worker":"w",'
        b'"at":"2026-11-21T10:00:00.000Z"}'
    )
    record = LEDGER_RECORD.validate_json(old)
    assert isinstance(record, LaneRecord)
    assert suspects_of(record, lambda _: False) == Suspects()

    found = (
        Suspect(**A._asdict(), crashes=2),
        Suspect(**B._asdict(), crashes=3),
        Suspect(request_id="of-a-version-before", crashes=9),
    )
    new = record.model_copy(update={"suspects": found, "at": NOW})
    again = LEDGER_RECORD.validate_json(new.model_dump_json())
    assert again == new
    assert isinstance(again, LaneRecord)
    assert set(suspects_of(again, lambda name: name == A).found) == {B}
    assert suspects_of(None, lambda _: False) == Suspects()
