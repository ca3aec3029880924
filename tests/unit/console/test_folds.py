"""The smaller folds: summaries, lanes, the index of workflows, plots, and all of them at once."""

import json
import random
from collections import Counter

import pytest

from answerbus.topics import ATTEMPTS, DEAD_LETTERS, REQUESTS, RESULTS, RETRIES, TOPICS
from services.console.state.board import Minute
from services.console.state.console_state import TAIL_RECORDS, ConsoleState
from services.console.state.group_cache import Grouped
from services.console.state.lanes import Lanes, LaneSummary
from services.console.state.workflow_index import RUN_RECORDS, WorkflowIndex
from services.console.views.filters import DeadLetterFilters, filters_of
from services.console.views.plot import HEIGHT, Part, Plot, stacked
from services.operators.dead_letters.groups import Key
from services.operators.records.stored import Place, Stored
from services.operators.records.summary import TEXT_CHARS_MAX, RecordSummary, summarize
from tests.unit.console.records import EXAMPLES, NOON_MS, body_of, stored


@pytest.mark.parametrize(
    "example", [f"{path.parent.name}/{path.stem}" for path in EXAMPLES.rglob("*.json")]
)
def test_every_event_is_glimpsed(example: str) -> None:
    body = body_of(example)

    seen = summarize(stored(example))

    assert seen.kind == body["kind"]
    assert seen.workflow_id == body.get("workflow_id")
    assert seen.request_id == body.get("request_id")


def test_a_glimpse_holds_what_is_counted_and_nothing_that_was_said() -> None:
    seen = summarize(stored("attempt/retry", partition=3, offset=7))

    assert seen == RecordSummary(
        place=Place(ATTEMPTS, 3, 7),
        at_ms=NOON_MS,
        kind="attempt",
        workflow_id=seen.workflow_id,
        request_id=seen.request_id,
        profile="default",
        model=seen.model,
        attempt=seen.attempt,
        outcome="retry",
        why="invalid",
        tokens=seen.tokens,
        micro_usd=seen.micro_usd,
        duration_ms=seen.duration_ms,
        account_id=seen.account_id,
        worker=seen.worker,
    )


@pytest.mark.parametrize(
    "value", [b"", b"{", b"[]", b"null", b'{"kind":7}', b'{"kind":"x","model":{}}', b"\xff", None]
)
def test_bytes_that_are_no_event_are_seen_as_that(value: bytes | None) -> None:
    assert summarize(Stored(RESULTS, 0, 0, 0, b"k", value, ())).kind == "undecodable"


@pytest.mark.parametrize(
    "example", ["result/dep_bump", "dead_letter/unknown_profile", "attempt/retry", "closed/result"]
)
def test_what_strangers_call_an_event_of_ours_is_none(example: str) -> None:
    value = json.dumps(body_of(example)).encode()
    state = ConsoleState()

    state.take(Stored(REQUESTS, 0, 0, NOON_MS, b"k", value, ()))

    assert [seen.kind for seen in state.tail()] == ["undecodable"]
    assert state.board.window(NOON_MS, 60, 60).total == Minute()


def test_ids_and_names_that_are_no_such_are_not_kept() -> None:
    seen = summarize(stored("request/minimal", profile="x" * (TEXT_CHARS_MAX + 1)))

    assert seen == RecordSummary(Place(REQUESTS, 0, 0), NOON_MS, "undecodable")


def test_a_filter_for_letters_with_an_empty_label_does_not_become_one_for_all() -> None:
    chosen = DeadLetterFilters().narrowed([Key("label:", "tenant")], [""])

    assert filters_of(chosen.pairs) == chosen


def test_the_end_of_a_retry_names_its_request() -> None:
    seen = summarize(Stored(RETRIES, 0, 0, 0, b"r-1", None, ()))

    assert (seen.kind, seen.request_id) == ("retry_ended", "r-1")


def test_lanes_know_who_opened_them_and_what_is_in_flight() -> None:
    lanes = Lanes()
    for record in (
        stored("lane/lane", partition=2, worker="w-1", openings_without_progress=1),
        stored("lane/lane", NOON_MS + 5, partition=2, worker="w-2", openings_without_progress=0),
        stored("account/busy", partition=1, account_id="a", in_flight=[{}, {}]),
        stored("account/busy", partition=2, account_id="b", in_flight=[{}]),
        stored("account/busy", partition=2, account_id="c", in_flight=[{}]),
        stored("account/busy", partition=2, account_id="b", in_flight=[]),
    ):
        lanes.take(summarize(record))

    assert lanes.lanes == (LaneSummary(2, "w-2", 0, NOON_MS + 5),)
    assert lanes.in_flight == Counter({1: 2, 2: 1})


def test_the_index_finds_all_records_of_a_workflow_in_order() -> None:
    chance = random.Random(7)
    index, expected = WorkflowIndex(), []
    count = 2 * RUN_RECORDS + 500  # two sorted runs and a rest
    for offset in range(count):
        place = Place(chance.choice(TOPICS), chance.randrange(12), offset + 2**40)
        workflow = f"w-{chance.randrange(1_000)}"
        index.add(workflow, place)
        if workflow == "w-7":
            expected.append(place)

    found = index.find("w-7")

    assert sorted(found, key=lambda place: place.offset) == expected
    assert found == sorted(
        found, key=lambda place: (TOPICS.index(place.topic), place.partition, place.offset)
    )
    assert index.find("nobody") == []


def test_bars_are_stacked_on_a_round_scale() -> None:
    assert stacked({"good": [4, 0], "bad": [2, 0]}) == Plot(
        (
            Part("good", 22.5, HEIGHT * 0.6, 255.0, HEIGHT * 0.4),
            Part("bad", 22.5, HEIGHT * 0.4, 255.0, HEIGHT * 0.2),
        ),
        10,
    )
    assert stacked({"none": []}) == Plot((), 1)


def test_the_picture_keeps_a_tail_without_the_ledger_and_finds_operators_deeds() -> None:
    state = ConsoleState()
    state.take(stored("dead_letter/unknown_profile", dead_letter_id="x.dead-letter"))
    state.take(stored("replayed/unchanged", offset=1, dead_letter_id="x.dead-letter"))
    state.take(stored("account/busy"))
    for n in range(TAIL_RECORDS):
        state.take(stored("result/dep_bump", NOON_MS + n, offset=n))

    assert len(state.tail()) == TAIL_RECORDS
    assert [seen.at_ms for seen in state.tail()[:2]] == [NOON_MS + 299, NOON_MS + 298]
    assert state.records == TAIL_RECORDS + 3
    assert [one.id for one in state.dead_letters] == ["x.dead-letter"]

    assert state.workflows.find("letter\0x.dead-letter") == [Place(DEAD_LETTERS, 0, 1)]


def test_groups_are_counted_again_when_letters_have_changed_and_only_then() -> None:
    state = ConsoleState()
    state.take(stored("dead_letter/unknown_profile", dead_letter_id="x.dead-letter"))
    keys = [Key("cause")]
    first = state.group_cache.of(DeadLetterFilters(), keys)

    state.take(stored("result/dep_bump"))
    assert state.group_cache.of(DeadLetterFilters(), keys) is first

    state.take(stored("dead_letter/unknown_schema", dead_letter_id="y.dead-letter"))
    state.take(stored("dismissed/dismissed", dead_letter_id="x.dead-letter"))
    found = state.group_cache.of(DeadLetterFilters(), keys)
    assert [(one.values, one.count) for one in found.groups] == [(("unknown_schema",), 1)]
    assert state.group_cache.of(DeadLetterFilters(status=None), keys).count == 2
    assert ConsoleState().group_cache.of(DeadLetterFilters(), keys) == Grouped(0, [])
