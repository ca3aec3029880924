"""Dead letters of several workflows that use one request id: each is one of its own."""

import itertools
from dataclasses import replace

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from answerbus.dead_letter import Dismissed, Replayed
from services.commands.replay.loading import (
    report_unavailable_ids,
    report_unclear_ids,
    report_unlisted_ids,
)
from services.operators.dead_letters.edit import Edits, replacing
from services.operators.dead_letters.index import DeadLetterIndex, ReplayOutcome
from services.operators.dead_letters.prepare_replay import (
    PreparedReplay,
    ReplayOrder,
    prepare_replay,
)
from services.operators.dead_letters.selection import Selection, select
from services.operators.records.dead_letter_key import DeadLetterKey
from services.operators.records.stored import Stored
from services.operators.records.summary import summarize
from tests.unit.operators.dead_letters.examples import (
    JsonObject,
    dead_letter_body,
    dead_letter_event,
    example,
    replayed_body,
    stored,
)
from tests.unit.worker.builders import NOW

ID = "r-1.dead-letter"
FATES = ("open", "dismissed", "pending", "answered", "refused", "dead")
ENDINGS = {"answered": ("result", "replayed"), "refused": ("refusal", "by_model")}
fates = st.sampled_from(FATES)
partitions = st.integers(0, 1)


def dismissed_body(workflow_id: str | None) -> JsonObject:
    event = Dismissed(dead_letter_id=ID, workflow_id=workflow_id, by="b", reason="r", at=NOW)
    return event.model_dump(mode="json")


def replay_of(workflow_id: str) -> JsonObject:
    account = f"{workflow_id}~1507d1786741"
    return {"dead_letter_id": ID, "round": 1, "account": account, "by": "", "edited": False}


def story(workflow_id: str, fate: str) -> list[JsonObject]:
    """The records about the dead letter of one workflow, whose last attempt asked its model."""
    model = {**example("attempt", "retry")["model"], "model": f"model of {workflow_id}"}
    attempt = {**example("attempt", "retry"), "request_id": "r-1", "workflow_id": workflow_id}
    events = [{**attempt, "model": model}, dead_letter_body(workflow_id=workflow_id)]
    if fate == "dismissed":
        events.append(dismissed_body(workflow_id))
    elif fate != "open":
        events.append({**replayed_body(), "workflow_id": workflow_id, "reason": workflow_id})
    replay = replay_of(workflow_id)
    ended = {"request_id": "r-1.replay.1", "workflow_id": workflow_id, "replay": replay}
    if fate in ENDINGS:
        events.append({**example(*ENDINGS[fate]), **ended})
    if fate == "dead":
        request = {"replay": replay}
        events.append(dead_letter_body("r-1.replay.1", workflow_id, round=1, request=request))
    return events


def index_of(*records: Stored) -> DeadLetterIndex:
    dead_letters = DeadLetterIndex()
    for record in records:
        dead_letters.take(summarize(record))
    return dead_letters


def check(dead_letters: DeadLetterIndex, workflow_id: str, fate: str) -> None:
    dead_letter = dead_letters.get(DeadLetterKey(workflow_id, ID))
    assert dead_letter is not None
    assert dead_letter.workflow_id == workflow_id
    assert dead_letter.model == f"model of {workflow_id}"
    assert dead_letter.cost is not None
    is_replayed = fate not in ("open", "dismissed")
    assert dead_letter.status == ("replayed" if is_replayed else fate)
    assert (dead_letter.replay and dead_letter.replay.reason) == (
        workflow_id if is_replayed else None
    )
    again = DeadLetterKey(workflow_id, "r-1.replay.1.dead-letter") if fate == "dead" else None
    expected = ReplayOutcome(fate, again) if is_replayed else None  # type: ignore[arg-type]
    assert dead_letters.replay_outcome(dead_letter) == expected


@pytest.mark.wide
@given(fates, fates, partitions, st.data())
def test_each_is_listed_tried_replayed_dismissed_and_ended_by_itself(
    one: str, two: str, partition: int, data: st.DataObject
) -> None:
    records = [
        *(stored(event, n) for n, event in enumerate(story("w-1", one))),
        *(stored(event, 10 + n, partition) for n, event in enumerate(story("w-2", two))),
    ]
    dead_letters = index_of(*data.draw(st.permutations([*records, *records])))

    check(dead_letters, "w-1", one)
    check(dead_letters, "w-2", two)
    assert len(dead_letters.named(ID)) == 2
    assert [dead_letter.workflow_id for dead_letter in dead_letters.named(f"{ID}@w-2")] == ["w-2"]
    assert dead_letters.named(f"{ID}@w-3") == []


def test_an_older_action_means_the_one_dead_letter_of_its_partition() -> None:
    unnamed = (replayed_body(), dismissed_body(None))
    records = [
        stored(dead_letter_body(workflow_id="w-1"), 0, partition=0),
        stored(dead_letter_body(workflow_id="w-2"), 0, partition=1),
        *(stored(event, 1 + n, partition=1) for n, event in enumerate(unnamed)),
    ]
    for order in itertools.permutations(records):
        dead_letters = index_of(*order)
        one, two = (dead_letters.get(DeadLetterKey(workflow, ID)) for workflow in ("w-1", "w-2"))

        assert one is not None
        assert two is not None
        assert (one.status, one.dismissal) == ("open", None)
        assert two.status == "replayed"
        assert two.dismissal is not None


def test_an_older_action_on_dead_letters_of_one_partition_means_what_was_there() -> None:
    one, two, three = (dead_letter_body(workflow_id=f"w-{n}") for n in (1, 2, 3))

    before = index_of(stored(one), stored(replayed_body(), 1), stored(two, 2))
    after = index_of(stored(one), stored(two, 1), stored(replayed_body(), 2), stored(three, 3))

    assert [dead_letter.status for dead_letter in before] == ["replayed", "open"]
    assert [dead_letter.status for dead_letter in after] == ["open", "open", "open"]


RAW = {
    **example("dead_letter", "conflicting_id"),
    "request_id": "r-1",
    "dead_letter_id": "t-0-7.dead-letter",
}


@pytest.mark.parametrize("workflow_id", [None, "w-1"])
@pytest.mark.parametrize("replayed_in", [None, "w-1", "w-9"])
def test_a_dead_letter_without_a_request_is_known_by_its_place(
    workflow_id: str | None, replayed_in: str | None
) -> None:
    sent = {**replayed_body(), "dead_letter_id": RAW["dead_letter_id"], "request_id": "r-1"}
    answer = {**example("result", "replayed"), "request_id": "r-1"}
    events: list[JsonObject] = [
        {**RAW, "workflow_id": workflow_id},
        {**sent, "workflow_id": replayed_in},
        {**answer, "workflow_id": replayed_in or "w-9"},
    ]
    for order in itertools.permutations(events):
        dead_letters = index_of(*(stored(event, n) for n, event in enumerate(order)))
        (dead_letter,) = dead_letters.named("t-0-7.dead-letter")

        assert dead_letter.key == DeadLetterKey("", "t-0-7.dead-letter")
        assert dead_letters.replay_outcome(dead_letter) == ReplayOutcome("answered")


def test_commands_list_the_dead_letters_of_an_id_of_several_workflows_and_choose_none(
    capsys: pytest.CaptureFixture[str],
) -> None:
    events = [dead_letter_body(workflow_id=workflow_id) for workflow_id in ("w-1", "w-2")]
    dead_letters = index_of(*(stored(event, n) for n, event in enumerate(events)))

    with pytest.raises(typer.Exit) as ended:
        report_unavailable_ids(dead_letters, (ID,))
    report_unavailable_ids(dead_letters, (f"{ID}@w-1",))

    assert ended.value.exit_code == 1
    assert capsys.readouterr().err.splitlines() == [
        f"2 dead letters have the id {ID}: name one with its workflow.",
        f"  {ID}@w-1",
        f"  {ID}@w-2",
    ]
    chosen = select(dead_letters, Selection(ids=frozenset({f"{ID}@w-2"})))
    assert [dead_letter.workflow_id for dead_letter in chosen] == ["w-2"]


def test_a_list_says_why_a_dead_letter_that_was_named_is_not_in_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    events = [dead_letter_body("r-1", "w-1"), {**replayed_body(), "workflow_id": "w-1"}]
    dead_letters = index_of(*(stored(event, n) for n, event in enumerate(events)))
    named = Selection(ids=frozenset({"r-1.dead-letter"}), statuses=frozenset({"open"}))

    report_unlisted_ids(dead_letters, named)
    said = "r-1.dead-letter was replayed already, as r-1.replay.1.\n"
    assert capsys.readouterr().err == said
    report_unlisted_ids(dead_letters, replace(named, statuses=frozenset({"replayed"})))
    assert capsys.readouterr().err == ""
    with pytest.raises(typer.Exit):
        report_unlisted_ids(dead_letters, replace(named, ids=frozenset({"r-1"})))
    said = "There is no dead letter r-1. Is r-1.dead-letter meant?\n"
    assert capsys.readouterr().err == said


def test_an_edit_names_its_dead_letter_with_the_workflow() -> None:
    edits = Edits(by_dead_letter={f"{ID}@w-1": (replacing("/profile", "large"),)})
    order = ReplayOrder("ops@acme", "why", edits)
    prepared = [
        prepare_replay(dead_letter_event("r-1", workflow_id), order, NOW)
        for workflow_id in ("w-1", "w-2")
    ]

    replayed: list[Replayed] = []
    for found in prepared:
        assert isinstance(found, PreparedReplay)
        replayed.append(found.replayed)
    assert [(one.workflow_id, len(one.edit)) for one in replayed] == [("w-1", 1), ("w-2", 0)]


def test_an_edit_of_a_dead_letter_that_is_not_there_stops_the_replay(
    capsys: pytest.CaptureFixture[str],
) -> None:
    dead_letters = index_of(stored(dead_letter_body("r-1", "w-1")))

    report_unclear_ids(dead_letters, {"r-1.dead-letter": (), "r-1.dead-letter@w-1": ()})
    with pytest.raises(typer.Exit):
        report_unclear_ids(dead_letters, {"r-1": (), "r-1.dead-letter": ()})

    said = capsys.readouterr().err
    assert said == "There is no dead letter r-1. Is r-1.dead-letter meant?\n"


def test_those_that_are_too_large_to_hold_their_request_are_told_apart_too() -> None:
    index = DeadLetterIndex()
    for offset, workflow_id in enumerate(("w-0", "w-1")):
        cut = dead_letter_body(workflow_id=workflow_id) | {"request": None, "labels": {}}
        index.take(summarize(stored(cut, offset)))
    index.take(summarize(stored(dismissed_body("w-1"), 2)))

    found = {dead_letter.key: dead_letter.status for dead_letter in index}
    assert found == {DeadLetterKey("w-0", ID): "open", DeadLetterKey("w-1", ID): "dismissed"}
