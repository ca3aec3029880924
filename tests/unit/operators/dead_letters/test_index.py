"""Letters folded from their records, in any order of these."""

import itertools
import json
import random
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
from services.operators.dead_letters.row import Dismissal, Funds, ReplayInfo
from services.operators.records.letter_key import LetterKey
from services.operators.records.stored import Place
from services.operators.records.summary import summarize
from tests.unit.operators.dead_letters.examples import (
    EXAMPLES,
    JsonObject,
    example,
    folded,
    letter_body,
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


def test_a_letter_is_listed_with_what_it_is_about() -> None:
    letters = folded(
        None,
        letter_body(
            labels={"tenant": "acme"},
            request={"profile": "large", "budget": {"attempts": 2, "tokens": 50}},
        ),
    )
    letter = only(letters)

    assert letters.undecodable == 1
    assert (letter.id, letter.request_id, letter.workflow_id) == ("r-1.dead-letter", "r-1", "w-0")
    assert (letter.place, letter.at_ms) == (Place(DEAD_LETTERS, 0, 1), NOW_MS)
    assert (letter.cause, letter.failure, letter.schema) == ("budget_exhausted", "unknown", "text")
    assert (letter.profile, letter.labels, letter.round) == ("large", (("tenant", "acme"),), 0)
    assert (letter.account_id, letter.limit) == ("w-0", Funds(2, 50, None))
    assert letter.spent == Funds(1, 10, 0)
    assert (letter.model, letter.status, letters.replay_outcome(letter)) == (None, "open", None)


@pytest.mark.parametrize("path", sorted((EXAMPLES / "dead_letter").iterdir()), ids=lambda p: p.stem)
def test_the_quick_reader_finds_what_the_codec_finds(path: Path) -> None:
    letter = only(folded(path.read_bytes()))
    event = DeadLetter.model_validate_json(path.read_bytes())

    assert (letter.id, letter.cause, letter.round) == (
        event.dead_letter_id,
        event.cause.kind,
        event.round,
    )
    assert letter.at_ms == round(event.at.timestamp() * 1000)
    assert letter.schema == (
        schema_name(event.request.answer_schema).label if event.request else None
    )
    assert letter.profile == (event.request.profile if event.request else None)
    assert letter.has_request == (event.request is not None)
    limit, budget = letter.limit, event.request.budget if event.request else None
    assert limit == (Funds(budget.attempts, budget.tokens, budget.micro_usd) if budget else None)
    assert dict(letter.labels) == event.labels


def test_replays_and_dismissals_are_joined_in_any_order_and_any_number() -> None:
    again = {**replayed_body(), "request_id": "r-1.replay.9"}
    events: list[JsonObject] = [letter_body(), replayed_body(), DISMISSED, letter_body()]
    for order in itertools.permutations(events):
        letters = folded(*order, again)
        letter = only(letters)

        assert (letter.replay, letter.status, letters.replay_outcome(letter)) == (
            SENT,
            "replayed",
            ReplayOutcome("pending"),
        )
        assert letter.dismissal == Dismissal("ops@acme", "customer gone", NOW_MS + 120_000)


def test_a_dismissal_that_was_undone_leaves_the_letter_open_in_any_order() -> None:
    """By the order of their records, of which one may be read twice."""
    events = [
        letter_body(),
        DISMISSED,
        {**DISMISSED, "undone": True},
        {**DISMISSED, "by": "x@acme"},
    ]
    for count, status in ((2, "dismissed"), (3, "open"), (4, "dismissed")):
        records = [summarize(stored(body, n)) for n, body in enumerate(events[:count])]
        for order in itertools.permutations([*records, records[1]]):
            letters = DeadLetterIndex()
            for one in order:
                letters.take(one)
            letter = only(letters)
            assert letter.status == status
            assert [one.undone for one in letter.dismissals] == [False, True, False][: count - 1]


def test_a_dismissed_letter_says_so() -> None:
    assert only(folded(letter_body(), DISMISSED)).status == "dismissed"


REPLAY = {
    "dead_letter_id": "r-1.dead-letter",
    "round": 1,
    "account": "w-0~1507d1786741",
    "by": "",
    "edited": False,
}
AGAIN = letter_body("r-1.replay.1", round=1, request={"replay": REPLAY})
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
        ([AGAIN], ReplayOutcome("dead", LetterKey("w-0", "r-1.replay.1.dead-letter"))),
        ([CONFLICTING], ReplayOutcome("dead", LetterKey("", CONFLICTING["dead_letter_id"]))),
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
    for order in itertools.permutations([letter_body(), replayed_body(), *terminals]):
        letters = folded(*order)
        letter = letters.get(LetterKey("w-0", "r-1.dead-letter"))

        assert letter is not None
        assert letters.replay_outcome(letter) == outcome


def test_models_come_from_the_attempts_before_and_after_the_letter() -> None:
    attempt = example("attempt", "retry")
    one = stored({**attempt, "request_id": "r-1", "workflow_id": "w-0"})
    two = stored(letter_body())
    for order in ((one, two), (two, one)):
        letters = DeadLetterIndex()
        for record in order:
            letters.take(summarize(record))

        assert only(letters).model == attempt["model"]["model"]


def test_models_of_requests_without_a_dead_letter_are_dropped() -> None:
    letters = DeadLetterIndex()
    attempt = example("attempt", "result")
    for n in range(RECENT_REQUESTS_MAX + 1):
        letters.take(summarize(stored({**attempt, "request_id": f"r-{n}", "workflow_id": "w-0"})))
    for n in (0, 1):
        letters.take(summarize(stored(letter_body(f"r-{n}"))))

    models = [letter.model for letter in letters]
    assert models == [None, attempt["model"]["model"]]


def test_no_record_is_an_exception() -> None:
    rng = random.Random(7)
    whole = json.dumps(letter_body()).encode()
    letters = DeadLetterIndex()
    broken = [b"", b"{}", b"[]", b'{"kind":"result"}', b"\xff", *(whole[:n] for n in range(50))]
    for value in [*broken, bytes(rng.randrange(256) for _ in range(100))]:
        letters.take(summarize(stored(value)))

    assert (len(letters), letters.undecodable) == (0, len(broken) + 1)
