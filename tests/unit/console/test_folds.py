"""The smaller folds: glimpses, lanes, the index of workflows, plots, and all of them at once."""

import json
import random
from collections import Counter

import pytest

from answerbus.topics import ATTEMPTS, DEAD_LETTERS, REQUESTS, RESULTS, RETRIES, TOPICS
from services.console.board import Minute
from services.console.chosen import Chosen, chosen_of
from services.console.glimpse import TEXT_CHARS_MAX, Glimpse, glimpse
from services.console.groupings import Grouped
from services.console.index import RUN_RECORDS, WorkflowIndex
from services.console.lanes import Lanes, LaneSeen
from services.console.picture import TAIL_RECORDS, Picture
from services.console.plot import HEIGHT, Part, Plot, stacked
from services.letters.groups import Key
from services.reading.stored import Place, Stored
from tests.unit.console.records import EXAMPLES, NOON_MS, body_of, stored


@pytest.mark.parametrize(
    "example", [f"{path.parent.name}/{path.stem}" for path in EXAMPLES.rglob("*.json")]
)
def test_every_event_is_glimpsed(example: str) -> None:
    body = body_of(example)

    seen = glimpse(stored(example))

    assert seen.kind == body["kind"]
    assert seen.workflow_id == body.get("workflow_id")
    assert seen.request_id == body.get("request_id")


def test_a_glimpse_holds_what_is_counted_and_nothing_that_was_said() -> None:
    seen = glimpse(stored("attempt/retry", partition=3, offset=7))

    assert seen == Glimpse(
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
    assert glimpse(Stored(RESULTS, 0, 0, 0, b"k", value, ())).kind == "undecodable"


@pytest.mark.parametrize(
    "example", ["result/dep_bump", "dead_letter/unknown_profile", "attempt/retry", "closed/result"]
)
def test_what_strangers_call_an_event_of_ours_is_none(example: str) -> None:
    value = json.dumps(body_of(example)).encode()
    picture = Picture()

    picture.take(Stored(REQUESTS, 0, 0, NOON_MS, b"k", value, ()))

    assert [seen.kind for seen in picture.tail()] == ["undecodable"]
    assert picture.board.window(NOON_MS, 60, 60).total == Minute()


def test_ids_and_names_that_are_no_such_are_not_kept() -> None:
    seen = glimpse(stored("request/minimal", profile="x" * (TEXT_CHARS_MAX + 1)))

    assert seen == Glimpse(Place(REQUESTS, 0, 0), NOON_MS, "undecodable")


def test_a_filter_for_letters_with_an_empty_label_does_not_become_one_for_all() -> None:
    chosen = Chosen().narrowed([Key("label:", "tenant")], [""])

    assert chosen_of(chosen.pairs) == chosen


def test_the_end_of_a_retry_names_its_request() -> None:
    seen = glimpse(Stored(RETRIES, 0, 0, 0, b"r-1", None, ()))

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
        lanes.take(glimpse(record))

    assert lanes.lanes == (LaneSeen(2, "w-2", 0, NOON_MS + 5),)
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
    picture = Picture()
    picture.take(stored("dead_letter/unknown_profile", dead_letter_id="x.dead-letter"))
    picture.take(stored("replayed/unchanged", offset=1, dead_letter_id="x.dead-letter"))
    picture.take(stored("account/busy"))
    for n in range(TAIL_RECORDS):
        picture.take(stored("result/dep_bump", NOON_MS + n, offset=n))

    assert len(picture.tail()) == TAIL_RECORDS
    assert [seen.at_ms for seen in picture.tail()[:2]] == [NOON_MS + 299, NOON_MS + 298]
    assert picture.records == TAIL_RECORDS + 3
    assert [one.id for one in picture.letters] == ["x.dead-letter"]

    assert picture.workflows.find("letter\0x.dead-letter") == [Place(DEAD_LETTERS, 0, 1)]


def test_groups_are_counted_again_when_letters_have_changed_and_only_then() -> None:
    picture = Picture()
    picture.take(stored("dead_letter/unknown_profile", dead_letter_id="x.dead-letter"))
    keys = [Key("cause")]
    first = picture.groupings.of(Chosen(), keys)

    picture.take(stored("result/dep_bump"))
    assert picture.groupings.of(Chosen(), keys) is first

    picture.take(stored("dead_letter/unknown_schema", dead_letter_id="y.dead-letter"))
    picture.take(stored("dismissed/dismissed", dead_letter_id="x.dead-letter"))
    found = picture.groupings.of(Chosen(), keys)
    assert [(one.values, one.count) for one in found.groups] == [(("unknown_schema",), 1)]
    assert picture.groupings.of(Chosen(status=None), keys).count == 2
    assert Picture().groupings.of(Chosen(), keys) == Grouped(0, [])
