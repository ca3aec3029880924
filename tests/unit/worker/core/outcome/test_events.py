"""Events repeat what the case says, and fit their limits with any text of a model or upstream."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from answerbus import failure
from answerbus.dead_letter import CrashedWorker, DeadLetter
from answerbus.envelope import decode, encode
from answerbus.limits import (
    NOTE_BYTES_MAX,
    NOTES_MAX,
    PRIOR_ANSWER_BYTES_MAX,
    PRIOR_ENTRIES_MAX,
    PRIOR_VALUES_MAX,
)
from answerbus.outcome import Result, RetryRequest, UnvalidatedResult
from answerbus.request import Prior
from answerbus.trace import Trace
from answerbus.wire import bytes_digest
from services.worker.core.attempt import history
from services.worker.core.attempt.check import ANSWER_DEPTH_MAX
from services.worker.core.attempt.history import PRIOR_BYTES_MAX
from services.worker.core.outcome import events
from services.worker.core.outcome.call import Call
from services.worker.core.outcome.decision import End, Publish, PublishUnvalidated, Retry
from services.worker.core.request.lane_request import InRetries, LaneRequest, request_from_retry
from services.worker.core.schema.resolved import Accepted
from tests.unit.worker.builders import (
    NOW,
    OBJECT,
    account,
    after,
    case,
    earlier,
    nested,
    plan,
    request,
)

INVALID = failure.Invalid(problems=())
AUDIT_ONLY = case(plan_=plan(OBJECT, audit_only=frozenset({"rationale"})))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), inner, max_size=4)
    ),
    max_leaves=10,
)


def test_a_result_says_who_answered_what_for_whom_at_which_price() -> None:
    asked = request("r-7", "w-7", labels={"tenant": "acme"})
    made = events.event_of(Publish(Accepted("hi")), case(asked, attempt=2), account(), after(9))

    assert json.loads(made.model_dump_json()) == {
        "kind": "result",
        "event_id": "r-7.result",
        "request_id": "r-7",
        "workflow_id": "w-7",
        "schema": json.loads(plan().schema.id.model_dump_json()),
        "answer": "hi",
        "attempt": 2,
        "model": {
            "profile": "default", "provider": "scripted", "model": "a-model",
            "dialect": "prompted",
        },
        "usage": {"input_tokens": 10, "output_tokens": 5, "micro_usd": None},
        "account": {
            "id": "w-0",
            "limit": {"attempts": 3, "tokens": None, "micro_usd": None},
            "spent": {"attempts": 1, "tokens": 0, "micro_usd": 0},
        },
        "notes": [],
        "requested_at": "2026-11-21T10:00:00.000Z",
        "finished_at": "2026-11-21T10:00:09.000Z",
        "labels": {"tenant": "acme"},
        "replay": None,
        "body_digest": bytes_digest(b"body"),
    }  # fmt: skip


TRACE = Trace("ab" * 16, "cd" * 8, flags=0, state="shop=1")


def retry_of(of: Call, prior: tuple[Prior, ...] | None = None) -> RetryRequest:
    prior = of.lane_request.progress.prior if prior is None else prior
    retry = events.event_of(Retry(prior, INVALID, 5.0, counted=True), of, account(), NOW)
    assert isinstance(retry, RetryRequest)
    return retry


def through_the_log(retry: RetryRequest) -> LaneRequest:
    record = encode(retry, trace=TRACE.headers())
    event = decode(record.value)
    assert isinstance(event, RetryRequest)
    return request_from_retry(event, record.key, 100, record.headers)


@pytest.mark.wide
@settings(max_examples=60, deadline=None)
@given(JSON, JSON)
def test_a_retry_can_be_read_back_whatever_upstream_and_model_said(
    fact: JsonValue, answer: JsonValue
) -> None:
    """A retry that cannot be read back keeps its lane shut."""
    asked = request(context={"instructions": "x", "facts": [{"name": "f", "value": fact}]})
    of = case(asked, prior=(earlier(1, answer),), notes=("n",), waits=3, attempt=4)

    lane_request = through_the_log(retry_of(of))

    assert (lane_request.request, lane_request.progress.prior, lane_request.notes) == (
        asked,
        of.lane_request.progress.prior,
        of.notes,
    )
    assert lane_request.progress.waits == 3
    assert lane_request.progress.stored == InRetries(lane_request.key.record_key().encode())
    assert (lane_request.life.until, lane_request.deadline) == (after(5), after(3600))
    assert lane_request.incoming_trace == TRACE
    assert (lane_request.origin, lane_request.body_digest) == (
        of.lane_request.origin,
        of.lane_request.body_digest,
    )


def test_more_notes_than_an_event_holds_break_no_retry() -> None:
    of = case(notes=tuple(f"{n} " + "x" * 5_000 for n in range(100)))

    notes = retry_of(of).notes

    assert len(notes) == NOTES_MAX
    assert max(len(note.encode()) for note in notes) == NOTE_BYTES_MAX


@pytest.mark.parametrize("content", ['{"a": "\ud800"}', "\ud800", '{"a": 1'])
def test_half_a_surrogate_pair_from_a_model_breaks_no_event(content: str) -> None:
    kept = history.kept_answer(AUDIT_ONLY.plan, content)
    prior = history.with_failure((), 1, INVALID, kept)
    unvalidated = events.event_of(PublishUnvalidated(kept, INVALID), AUDIT_ONLY, account(), NOW)

    assert isinstance(decode(encode(retry_of(AUDIT_ONLY, prior)).value), RetryRequest)
    assert isinstance(decode(encode(unvalidated).value), UnvalidatedResult)


def test_an_answer_that_nests_too_deep_for_an_event_is_not_kept() -> None:
    deep, fits = (json.dumps(nested(ANSWER_DEPTH_MAX + more)) for more in (1, 0))

    assert history.kept_answer(AUDIT_ONLY.plan, deep) is None
    assert history.kept_answer(AUDIT_ONLY.plan, fits) == nested(ANSWER_DEPTH_MAX)
    assert history.readable(plan(), deep) is None


@pytest.mark.parametrize(
    ("content", "kept"),
    [
        ('{"a": 1, "rationale": "secret"}', {"a": 1}),
        ('[{"a": 1, "rationale": "secret"}]', [{"a": 1}]),
        ('{"answer": {"rationale": "secret", "b": [{"rationale": 1}]}}', {"answer": {"b": [{}]}}),
        ("not json", None),
        (json.dumps("x" * PRIOR_ANSWER_BYTES_MAX), None),
    ],
)
def test_the_answer_that_is_kept_has_no_audit_only_field_wherever_it_stands(
    content: str, kept: JsonValue
) -> None:
    assert history.kept_answer(AUDIT_ONLY.plan, content) == kept


def test_earlier_answers_are_kept_the_newest_first_as_far_as_there_is_room() -> None:
    before = earlier(1, "first"), earlier(2, "second")

    prior = history.with_failure(before, 3, INVALID, "third")

    assert [(entry.attempt, entry.answer) for entry in prior] == [
        (1, "first"),
        (2, "second"),
        (3, "third"),
    ]
    large = [str(n) * (PRIOR_BYTES_MAX // 3) for n in range(4)]
    bounded = history.bounded_prior(tuple(earlier(n, large[n]) for n in range(4)))
    assert [entry.answer for entry in bounded] == [None, None, *large[2:]]


def test_earlier_answers_are_kept_as_far_as_readers_take_so_many_values() -> None:
    many: list[JsonValue] = [0] * (PRIOR_VALUES_MAX * 2 // 5)
    bounded = history.bounded_prior(tuple(earlier(n, many) for n in range(4)))

    assert [entry.answer for entry in bounded] == [None, None, many, many]


def test_the_number_of_an_attempt_is_above_all_that_came_with_its_request() -> None:
    prior = history.with_failure((earlier(5, "of the one before"),), 1, INVALID, "own")

    assert [entry.attempt for entry in prior] == [5, 6]


def test_upstreams_own_history_fits_as_well() -> None:
    """It is in the request too, so that a letter would hold it twice."""
    problem = failure.Problem.of("/a", "b", "c" * 400)
    full = failure.Invalid(problems=(problem,) * 20)
    long = tuple(Prior(attempt=n, failure=full, answer="x" * 400_000) for n in range(32))

    kept = history.bounded_prior(long)

    assert [entry.attempt for entry in kept] == list(range(32 - len(kept), 32))
    assert sum(len(entry.model_dump_json()) for entry in kept) <= PRIOR_BYTES_MAX
    assert {entry.answer for entry in kept} == {None}
    assert history.bounded_prior((earlier(1, "small"),)) == (earlier(1, "small"),)
    assert len(history.bounded_prior((earlier(),) * 50)) == PRIOR_ENTRIES_MAX


def test_a_problem_that_upstream_wrote_at_any_length_is_clipped() -> None:
    """No record could hold it twice, and its lane would stop with the dead letter."""
    long = failure.Problem(path="/p" * 250_000, code="c", expected="e")
    written = Prior(attempt=1, failure=failure.Invalid(problems=(long,)))

    (kept,) = history.bounded_prior((written,))

    assert isinstance(kept.failure, failure.Invalid)
    assert kept.failure.problems == (long.clipped(),)
    assert len(kept.model_dump_json()) < 1_000


def test_a_letter_knows_how_often_its_request_was_replayed() -> None:
    replay: JsonValue = {
        "dead_letter_id": "x",
        "round": 2,
        "account": "w-0~2d711642b726",
        "by": "ops",
        "edited": False,
    }
    lane_request = case(request("r-1", replay=replay), notes=("n", "n")).lane_request
    letter = events.dead_letter_without_call(
        lane_request, CrashedWorker(openings=6), account(), NOW
    )

    assert (letter.dead_letter_id, letter.round, letter.notes) == ("r-1.dead-letter", 2, ("n",))
    assert decode(encode(letter).value) == letter
    assert isinstance(letter, DeadLetter)


def test_the_dialects_notes_reach_result_and_letter() -> None:
    prompted = case(plan_=plan(OBJECT))
    result = events.event_of(Publish(Accepted({}, notes=("own",))), prompted, account(), NOW)

    assert isinstance(result, Result)
    assert result.notes == (*prompted.plan.wire.notes, "own")
    letter = events.event_of(End((), CrashedWorker(openings=6)), prompted, account(), NOW)
    assert isinstance(letter, DeadLetter)
    assert letter.notes == prompted.plan.wire.notes
