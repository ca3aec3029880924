"""Letters folded from their records, in any order of these."""

import itertools
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from answerbus.dead_letter import DeadLetter
from answerbus.schema_name import schema_name
from answerbus.topics import DEAD_LETTERS
from services.operators.dead_letters.index import (
    RECENT_REQUESTS_MAX,
    DeadLetterIndex,
    ReplayOutcome,
)
from services.operators.dead_letters.row import BudgetAmounts, Dismissal, ReplayInfo
from services.operators.records.dead_letter_key import DeadLetterKey
from services.operators.records.stored import RecordPosition
from services.operators.records.summary import summarize
from tests.unit.operators.dead_letters.examples import (
    EXAMPLES,
    JsonObject,
    dead_letter_body,
    example,
    folded,
    only,
    replayed_body,
    stored,
)

NOW_MS = 1_795_255_200_000  # tests.unit.worker.builders.NOW
SENT = ReplayInfo("r-1.replay.1", 1, "ops@acme", "prompt fixed", NOW_MS + 60_000)
DISMISSED = {
    "kind": "dismissed",
    "dead_letter_id": "r-1.dead-letter",
    "by": "ops@acme",
    "reason": "customer gone",
    "at": "2026-11-21T10:02:00.000Z",
}


def test_a_dead_letter_is_listed_with_what_it_is_about() -> None:
    dead_letters = folded(
        None,
        dead_letter_body(
            labels={"tenant": "acme"},
            request={"profile": "large", "budget": {"attempts": 2, "tokens": 50}},
        ),
    )
    dead_letter = only(dead_letters)

    assert dead_letters.undecodable == 1
    assert (dead_letter.id, dead_letter.request_id, dead_letter.workflow_id) == (
        "r-1.dead-letter",
        "r-1",
        "w-0",
    )
    assert (dead_letter.place, dead_letter.at_ms) == (RecordPosition(DEAD_LETTERS, 0, 1), NOW_MS)
    assert (dead_letter.cause, dead_letter.failure, dead_letter.schema) == (
        "budget_exhausted",
        "unknown",
        "text",
    )
    assert (dead_letter.profile, dead_letter.labels, dead_letter.round) == (
        "large",
        (("tenant", "acme"),),
        0,
    )
    assert (dead_letter.account_id, dead_letter.limit) == ("w-0", BudgetAmounts(2, 50, None))
    assert dead_letter.spent == BudgetAmounts(1, 10, 0)
    assert (dead_letter.model, dead_letter.status, dead_letters.replay_outcome(dead_letter)) == (
        None,
        "open",
        None,
    )


@pytest.mark.parametrize("path", sorted((EXAMPLES / "dead_letter").iterdir()), ids=lambda p: p.stem)
def test_the_quick_reader_finds_what_the_codec_finds(path: Path) -> None:
    dead_letter = only(folded(path.read_bytes()))
    event = DeadLetter.model_validate_json(path.read_bytes())

    assert (dead_letter.id, dead_letter.cause, dead_letter.round) == (
        event.dead_letter_id,
        event.cause.kind,
        event.round,
    )
    assert dead_letter.at_ms == round(event.at.timestamp() * 1000)
    assert dead_letter.schema == (
        schema_name(event.request.answer_schema).label if event.request else None
    )
    assert dead_letter.profile == (event.request.profile if event.request else None)
    assert dead_letter.has_request == (event.request is not None)
    limit, budget = dead_letter.limit, event.request.budget if event.request else None
    assert limit == (
        BudgetAmounts(budget.attempts, budget.tokens, budget.micro_usd) if budget else None
    )
    assert dict(dead_letter.labels) == event.labels


def test_replays_and_dismissals_are_joined_in_any_order_and_any_number() -> None:
    again = {**replayed_body(), "request_id": "r-1.replay.9"}
    events: list[JsonObject] = [dead_letter_body(), replayed_body(), DISMISSED, dead_letter_body()]
    for order in itertools.permutations(events):
        dead_letters = folded(*order, again)
        dead_letter = only(dead_letters)

        assert (
            dead_letter.replay,
            dead_letter.status,
            dead_letters.replay_outcome(dead_letter),
        ) == (
            SENT,
            "replayed",
            ReplayOutcome("pending"),
        )
        assert dead_letter.dismissal == Dismissal("ops@acme", "customer gone", NOW_MS + 120_000)


def test_a_dismissal_that_was_undone_leaves_the_dead_letter_open_in_any_order() -> None:
    """By the order of their records, of which one may be read twice."""
    events = [
        dead_letter_body(),
        DISMISSED,
        {**DISMISSED, "undone": True},
        {**DISMISSED, "by": "x@acme"},
    ]
    for count, status in ((2, "dismissed"), (3, "open"), (4, "dismissed")):
        records = [summarize(stored(body, n)) for n, body in enumerate(events[:count])]
        for order in itertools.permutations([*records, records[1]]):
            dead_letters = DeadLetterIndex()
            for one in order:
                dead_letters.take(one)
            dead_letter = only(dead_letters)
            assert dead_letter.status == status
            assert [one.undone for one in dead_letter.dismissals] == [False, True, False][
                : count - 1
            ]


def test_a_dismissed_dead_letter_says_so() -> None:
    assert only(folded(dead_letter_body(), DISMISSED)).status == "dismissed"


REPLAY = {
    "dead_letter_id": "r-1.dead-letter",
    "round": 1,
    "account": "w-0~1507d1786741",
    "by": "",
    "edited": False,
}
AGAIN = dead_letter_body("r-1.replay.1", round=1, request={"replay": REPLAY})
CONFLICTING = {
    **example("dead_letter", "conflicting_id"),
    "request_id": "r-1.replay.1",
    "workflow_id": "w-0",
}


@pytest.mark.parametrize(
    ("terminals", "outcome"),
    [
        ([], ReplayOutcome("pending")),
        (
            [{**example("result", "replayed"), "request_id": "r-1.replay.1", "workflow_id": "w-0"}],
            ReplayOutcome("answered"),
        ),
        (
            [
                {
                    **example("refusal", "by_model"),
                    "request_id": "r-1.replay.1",
                    "workflow_id": "w-0",
                    "replay": REPLAY,
                }
            ],
            ReplayOutcome("refused"),
        ),
        ([AGAIN], ReplayOutcome("dead", DeadLetterKey("w-0", "r-1.replay.1.dead-letter"))),
        ([CONFLICTING], ReplayOutcome("dead", DeadLetterKey("", CONFLICTING["dead_letter_id"]))),
        (
            [
                {
                    **example("result", "replayed"),
                    "request_id": "r-1.replay.1",
                    "workflow_id": "w-0",
                },
                CONFLICTING,
            ],
            ReplayOutcome("answered"),
        ),
        ([{**example("result", "text"), "request_id": "r-1"}], ReplayOutcome("pending")),
    ],
)
def test_what_came_of_a_replay(terminals: list[JsonObject], outcome: ReplayOutcome) -> None:
    for order in itertools.permutations([dead_letter_body(), replayed_body(), *terminals]):
        dead_letters = folded(*order)
        dead_letter = dead_letters.get(DeadLetterKey("w-0", "r-1.dead-letter"))

        assert dead_letter is not None
        assert dead_letters.replay_outcome(dead_letter) == outcome


UNREADABLE = {
    **example("dead_letter", "undecodable"),
    "dead_letter_id": "t-0-7.dead-letter",
    "request_id": "r-1",
    "workflow_id": "w-0",
}
COPY = {**UNREADABLE, "dead_letter_id": "t-0-8.dead-letter"}
REPAIRED = {
    **replayed_body(),
    "dead_letter_id": "t-0-7.dead-letter",
    "request_id": "r-1",
    "workflow_id": "w-0",
}
TAKEN = {**CONFLICTING, "request_id": "r-1", "dead_letter_id": "t-0-9.dead-letter"}
DIED = dead_letter_body(round=1, request={"replay": {**REPLAY, "dead_letter_id": "t-0-7"}})


@pytest.mark.parametrize(
    ("later", "outcome"),
    [
        ([], ReplayOutcome("pending")),
        ([TAKEN], ReplayOutcome("dead", DeadLetterKey("", "t-0-9.dead-letter"))),
        ([DIED], ReplayOutcome("dead", DeadLetterKey("w-0", "r-1.dead-letter"))),
    ],
)
def test_letters_about_a_record_and_its_copy_are_not_what_came_of_its_repair(
    later: list[JsonObject], outcome: ReplayOutcome
) -> None:
    """A repaired record keeps the id that the unreadable one and its copies had."""
    events = [UNREADABLE, COPY, REPAIRED, *later]
    records = [replace(stored(event, n), at_ms=n) for n, event in enumerate(events)]
    for order in itertools.permutations(records):
        dead_letters = DeadLetterIndex()
        for record in order:
            dead_letters.take(summarize(record))
        (repaired,) = dead_letters.named("t-0-7.dead-letter")

        assert dead_letters.replay_outcome(repaired) == outcome


def test_models_come_from_the_attempts_before_and_after_the_dead_letter() -> None:
    attempt = example("attempt", "retry")
    one = stored({**attempt, "request_id": "r-1", "workflow_id": "w-0"})
    two = stored(dead_letter_body())
    for order in ((one, two), (two, one)):
        dead_letters = DeadLetterIndex()
        for record in order:
            dead_letters.take(summarize(record))

        assert only(dead_letters).model == attempt["model"]["model"]


@pytest.mark.wide
def test_models_of_requests_without_a_dead_letter_are_dropped() -> None:
    dead_letters = DeadLetterIndex()
    attempt = example("attempt", "result")
    for n in range(RECENT_REQUESTS_MAX + 1):
        dead_letters.take(
            summarize(stored({**attempt, "request_id": f"r-{n}", "workflow_id": "w-0"}))
        )
    for n in (0, 1):
        dead_letters.take(summarize(stored(dead_letter_body(f"r-{n}"))))

    models = [dead_letter.model for dead_letter in dead_letters]
    assert models == [None, attempt["model"]["model"]]


def test_no_record_is_an_exception() -> None:
    rng = random.Random(7)
    whole = json.dumps(dead_letter_body()).encode()
    dead_letters = DeadLetterIndex()
    broken = [b"", b"{}", b"[]", b'{"kind":"result"}', b"\xff", *(whole[:n] for n in range(50))]
    for value in [*broken, bytes(rng.randrange(256) for _ in range(100))]:
        dead_letters.take(summarize(stored(value)))

    assert (len(dead_letters), dead_letters.undecodable) == (0, len(broken) + 1)
