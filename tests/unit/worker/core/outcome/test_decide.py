"""Every reply becomes one outcome, and trying again is bounded by budget, deadline and number."""

import json
from dataclasses import replace
from typing import Any

import pytest

from answerbus import dead_letter, failure
from answerbus.budget import Budget
from answerbus.contract import Declined
from answerbus.limits import REASON_BYTES_MAX
from answerbus.outcome import Refusal, Result, RetryRequest, UnvalidatedResult
from services.worker.core.attempt.check import Checked, TooLarge
from services.worker.core.attempt.reply import (
    CallFacts,
    NoAnswer,
    Refused,
    Rejected,
    Reply,
    Throttled,
    TimedOut,
    Truncated,
    Unavailable,
)
from services.worker.core.budget.remaining_budget import RemainingBudget
from services.worker.core.limits.breaker import PROVIDER_PAUSE_MAX_S
from services.worker.core.outcome.call import Call
from services.worker.core.outcome.decide import (
    WAIT_IN_MEMORY_S_MAX,
    WAITS_MAX,
    DecisionInputs,
)
from services.worker.core.outcome.decision import Decision, Wait
from services.worker.core.schema.resolved import Accepted
from tests.tariffs import flat
from tests.unit.worker.builders import (
    BACKOFF,
    NOW,
    OBJECT,
    after,
    answered,
    around,
    case,
    plan,
    request,
)
from tests.unit.worker.builders import decided as committed

INVALID = failure.Invalid(problems=(failure.Problem.of("/a", "type", "a number"),))
MALFORMED = failure.Malformed(position=3, excerpt="{,")
DECLINED = Accepted({"kind": "refuse"}, Declined("not mine", "out_of_scope"))
FACTS = CallFacts()
LAST: dict[str, Any] = {"spent": 3, "limit": 3}


def asked(**policy: str) -> Call:
    rules: dict[str, Any] = policy
    return case(request(policy=rules), plan_=plan(OBJECT))


def decided(
    reply: Reply | None = None,
    checked: Checked | None = None,
    of: Call | None = None,
    **state: Any,
) -> Decision:
    return committed(ended(of or asked(), reply, checked), around(**state))


def ended(of: Call, reply: Reply | None = None, checked: Checked | None = None) -> Call:
    return replace(of, reply=reply or answered(), checked=checked)


def test_a_valid_answer_is_a_result_also_with_the_last_attempt() -> None:
    result = decided(checked=Accepted({"a": 1}, notes=("n",)), **LAST)

    assert isinstance(result, Result)
    assert (result.event_id, result.answer, result.attempt) == ("r-1.result", {"a": 1}, 1)
    assert "n" in result.notes


def test_a_refusing_variant_is_a_refusal_by_the_model() -> None:
    refusal = decided(checked=DECLINED)

    assert isinstance(refusal, Refusal)
    assert (refusal.by, refusal.reason, refusal.category) == ("model", "not mine", "out_of_scope")
    assert refusal.answer == {"kind": "refuse"}


def test_a_providers_refusal_is_a_refusal_without_an_answer() -> None:
    refusal = decided(Refused("filtered", FACTS, "content_filter"))

    assert isinstance(refusal, Refusal)
    assert (refusal.by, refusal.reason, refusal.answer) == ("provider", "filtered", None)


@pytest.mark.parametrize(
    ("reply", "checked"), [(None, DECLINED), (Refused("no", FACTS), None)], ids=["model", "filter"]
)
def test_refusals_are_tried_again_where_the_policy_says_so(
    reply: Reply | None, checked: Checked | None
) -> None:
    of = asked(on_refusal="retry")

    assert isinstance(decided(reply, checked, of), RetryRequest)
    assert isinstance(decided(reply, checked, of, **LAST), Refusal), "until the budget is spent"


def test_a_models_long_words_fit_into_the_retry() -> None:
    wordy = Accepted({}, Declined("y" * 10_000, None))

    retry = decided(checked=wordy, of=asked(on_refusal="retry"))

    assert isinstance(retry, RetryRequest)
    assert isinstance(retry.failure, failure.Refused)
    assert len(retry.failure.reason.encode()) <= REASON_BYTES_MAX


@pytest.mark.parametrize("failed", [INVALID, MALFORMED])
def test_what_breaks_the_schema_is_tried_again_with_its_problems(failed: Checked) -> None:
    retry = decided(answered('{"a": "x"}'), failed)

    assert isinstance(retry, RetryRequest)
    assert (retry.counted, retry.next_attempt, retry.failure) == (True, 2, failed)
    assert retry.not_before == after(0.5), "first back-off of 1 s, half by jitter"
    assert [(p.attempt, p.failure, p.answer) for p in retry.prior] == [(1, failed, {"a": "x"})]


@pytest.mark.parametrize(
    "reply",
    [
        Truncated(100, FACTS),
        NoAnswer(200, FACTS),
        TimedOut(60.0),
        Unavailable(500, ran=True),
        Unavailable(None, ran=True),
    ],
)
def test_what_may_have_run_is_counted_and_tried_again_while_budget_is_left(reply: Reply) -> None:
    retry = decided(reply)
    letter = decided(reply, **LAST)

    assert isinstance(retry, RetryRequest)
    assert retry.counted
    assert isinstance(letter, dead_letter.DeadLetter)
    assert letter.cause == dead_letter.BudgetExhausted(which="attempts")
    assert len(letter.prior) == 1


@pytest.mark.parametrize(
    ("policy", "cause"),
    [
        ({}, dead_letter.BudgetExhausted(which="attempts")),
        ({"on_invalid": "dead_letter"}, dead_letter.InvalidAnswer(failure=INVALID)),
        ({"at_last": "text"}, dead_letter.BudgetExhausted(which="attempts")),
    ],
)
def test_the_last_invalid_answer_ends_in_a_letter(
    policy: dict[str, str], cause: dead_letter.Cause
) -> None:
    letter = decided(checked=INVALID, of=asked(**policy), **LAST)

    assert isinstance(letter, dead_letter.DeadLetter)
    assert (letter.cause, letter.prior[-1].failure) == (cause, INVALID)


@pytest.mark.parametrize("content", ['{"a": "x"', "<data>lodash@4</data>", '{"a": \ud800'])
@pytest.mark.parametrize("on_invalid", ["retry", "dead_letter"])
def test_what_cannot_be_read_is_never_published_as_an_answer(content: str, on_invalid: str) -> None:
    failed = failure.Malformed(position=0, excerpt="")
    policy = {"at_last": "unvalidated", "on_invalid": on_invalid}
    letter = decided(answered(content), failed, asked(**policy), **LAST)

    assert isinstance(letter, dead_letter.DeadLetter)
    assert letter.cause.kind == ("budget_exhausted" if on_invalid == "retry" else "invalid_answer")


def test_the_last_invalid_answer_is_published_unvalidated_where_asked_for() -> None:
    result = decided(answered('{"a":"x"}'), INVALID, asked(at_last="unvalidated"), **LAST)

    assert isinstance(result, UnvalidatedResult)
    assert (result.unvalidated_answer, result.problems) == ({"a": "x"}, INVALID.problems)


INSIDE = failure.Invalid(problems=(failure.Problem.of("/0", "type", "an integer"),))
WHOLE = failure.Invalid(problems=(failure.Problem.of("", "type", "an object"),))


@pytest.mark.parametrize(
    "content", ['"I cannot do that."', "42", "true", "null", '["no", "thing"]']
)
def test_what_has_not_the_form_of_an_answer_is_no_unvalidated_one(content: str) -> None:
    """It can be read as JSON, and yet is not what was asked for with a fault in it."""
    letter = decided(answered(content), WHOLE, asked(at_last="unvalidated"), **LAST)

    assert isinstance(letter, dead_letter.DeadLetter)
    assert letter.cause.kind == "budget_exhausted"


def test_an_answer_of_more_values_than_readers_take_is_not_published_unvalidated() -> None:
    content = json.dumps({"a": [0] * 27_980})
    letter = decided(answered(content), INVALID, asked(at_last="unvalidated"), **LAST)

    assert isinstance(letter, dead_letter.DeadLetter)
    assert letter.cause.kind == "budget_exhausted"


def test_a_list_with_a_fault_inside_is_published_unvalidated() -> None:
    result = decided(answered('["x"]'), INSIDE, asked(at_last="unvalidated"), **LAST)

    assert isinstance(result, UnvalidatedResult)
    assert result.unvalidated_answer == ["x"]


def test_too_large_an_answer_is_a_letter_at_once() -> None:
    letter = decided(checked=TooLarge(10**6))

    assert isinstance(letter, dead_letter.DeadLetter)
    assert letter.cause == dead_letter.AnswerTooLarge()


def test_a_rejected_request_is_a_letter_and_a_rejected_profile_a_wait() -> None:
    letter = decided(Rejected("request", 400, "bad"))

    assert isinstance(letter, dead_letter.DeadLetter)
    assert letter.cause == dead_letter.Rejected(status=400, code="bad")
    assert decided(Rejected("profile", 401, "key")) == Wait(failure.Unavailable(status=401), 0.5)


def test_short_waits_stay_in_memory_and_long_ones_go_on_the_list_uncounted() -> None:
    """Also when the budget is spent: nobody worked on the call."""
    short = decided(Throttled(WAIT_IN_MEMORY_S_MAX), **LAST)
    long = decided(Throttled(30.0), **LAST)

    assert short == Wait(failure.Throttled(retry_after_s=5.0), 5.0)
    assert isinstance(long, RetryRequest)
    assert (long.counted, long.waits, long.not_before) == (False, 1, after(30))
    assert long.prior == (), "there is nothing to tell the model"


def test_a_provider_that_says_zero_again_and_again_does_not_use_up_all_waits() -> None:
    waits = [decided(Throttled(0.0), of=case(waits=n)) for n in range(8)]

    delays = [wait.delay_s for wait in waits if isinstance(wait, Wait)]
    assert delays == [0.5, 1.0, 2.0, 4.0]
    assert [type(wait) for wait in waits[4:]] == [RetryRequest] * 4


def test_no_provider_can_name_a_wait_beyond_the_next_probe_of_its_profile() -> None:
    """Else one wrong header ends a request, and keeps those behind it waiting until then."""
    retry = decided(Throttled(1e300))

    assert isinstance(retry, RetryRequest)
    assert (retry.not_before, retry.deadline) == (after(PROVIDER_PAUSE_MAX_S), after(3600))


def test_waits_have_a_last_one() -> None:
    ended = decided(Throttled(1.0), of=case(waits=WAITS_MAX))

    assert isinstance(decided(Throttled(1.0), of=case(waits=WAITS_MAX - 1)), Wait | RetryRequest)
    assert isinstance(ended, dead_letter.DeadLetter)
    last = failure.Throttled(retry_after_s=1.0)
    assert ended.cause == dead_letter.WaitedTooOften(waits=WAITS_MAX, failure=last)


def test_a_deadline_that_has_passed_is_when_the_retry_is_due() -> None:
    retry = decided(TimedOut(60.0), of=case(at=after(-5 - 3600)))

    assert isinstance(retry, RetryRequest)
    assert retry.not_before == after(-5) < NOW


def test_a_request_may_have_fewer_attempts_left_than_its_account() -> None:
    def of(attempts_left: int) -> Decision:
        budget = RemainingBudget(Budget(attempts=9), (1, 0, 0), attempts_left)
        return committed(ended(case(), TimedOut(1.0)), DecisionInputs(budget, BACKOFF, 0.5))

    letter = of(0)

    assert isinstance(of(1), RetryRequest)
    assert isinstance(letter, dead_letter.DeadLetter)
    assert letter.cause == dead_letter.BudgetExhausted(which="attempts")


@pytest.mark.parametrize(
    ("budget", "which"),
    [
        ({"tokens": 1_000}, "tokens"),
        ({"micro_usd": 1_000}, "micro_usd"),
        ({"tokens": 100_000, "micro_usd": 100_000}, None),
    ],
)
def test_an_attempt_that_tokens_or_money_cannot_pay_for_is_not_waited_for(
    budget: dict[str, int], which: str | None
) -> None:
    """What at_last and on_refusal say is for the last attempt, by any limit."""
    limit = Budget(attempts=9, **budget)
    now = DecisionInputs(RemainingBudget(limit, (1, 15, 15)), BACKOFF, 0.5)
    way = plan(OBJECT, tariff=flat(1, 1))

    def of(reply: Reply, checked: Checked | None = None, **policy: str) -> Decision:
        return committed(ended(case(request(policy=policy), plan_=way), reply, checked), now)

    decisions = (
        of(answered('{"a":"x"}'), INVALID, at_last="unvalidated"),
        of(Refused("no", FACTS), on_refusal="retry"),
        of(answered(), DECLINED, on_refusal="retry"),
        of(TimedOut(1.0)),
    )

    if which is None:
        assert {type(decision) for decision in decisions} == {RetryRequest}
        return
    assert [type(decision) for decision in decisions[:3]] == [UnvalidatedResult, Refusal, Refusal]
    letter = decisions[3]
    assert isinstance(letter, dead_letter.DeadLetter)
    assert letter.cause == dead_letter.BudgetExhausted.model_validate(
        {"kind": "budget_exhausted", "which": which}
    )
