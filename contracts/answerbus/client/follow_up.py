"""The follow-up of an answer that its schema allows and the rules of the caller's class do not."""

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from pydantic import JsonValue
from pydantic_core import to_json

from answerbus.budget import AccountState
from answerbus.client.answer_type import (
    VALIDATOR_FAILED,
    AnswerT,
    AnswerType,
    TypedOutcome,
)
from answerbus.envelope import encode
from answerbus.event import AnyOutcome
from answerbus.failure import Invalid
from answerbus.json_values import has_more_values
from answerbus.limits import (
    EQUAL_ANSWERS_DEFAULT,
    PRIOR_ANSWER_BYTES_MAX,
    PRIOR_ENTRIES_MAX,
    PRIOR_VALUES_MAX,
    REQUEST_BYTES_MAX,
    REQUEST_ID_CHARS_MAX,
    REQUEST_VALUES_MAX,
)
from answerbus.outcome import AnyResult, Result, UnvalidatedResult
from answerbus.request import InlineRef, Prior, Request
from answerbus.request_key import RequestKey

MARK: Final = ".again-"  # in the id of a follow-up, before its number
_NUMBER_CHARS_MAX = 7


async def valid_answer(
    request: Request,
    answers: AnswerType[AnswerT],
    ask: Callable[[Request], Awaitable[AnyOutcome]],
) -> "TypedOutcome[AnswerT]":
    """The outcome of a request whose answer keeps the rules of its class, as far as `ask` goes."""
    while True:
        outcome = await ask(request)
        typed = answers.typed_outcome(outcome)
        if not (isinstance(outcome, Result) and isinstance(typed, UnvalidatedResult)):
            return typed
        again = follow_up(request, outcome, typed)
        if again is None:
            return typed
        request = again


def follow_up(request: Request, answered: AnyResult, refused: UnvalidatedResult) -> Request | None:
    """The request that shows the model what its valid answer breaks; None where none is due.

    Its id is derived from the request's, so that an answer has one follow-up, however often it is
    asked for. A run is not asked again, as its tools would be called again; nor is a contract,
    whose rules the workers check; and no model can mend a validator.
    """
    if not isinstance(request.answer_schema, InlineRef) or request.agent is not None:
        return None
    if request.policy.on_invalid != "retry" or refused.problems[0].code == VALIDATOR_FAILED:
        return None
    if request.policy.at_last != "dead_letter" and _is_spent(answered.account):
        return None
    took_s = (answered.finished_at - answered.requested_at).total_seconds()
    ttl_s = request.ttl_s - math.ceil(max(took_s, 0.0))
    prior = _prior(request.prior, answered, refused)
    if ttl_s < 1 or prior[-1].times >= EQUAL_ANSWERS_DEFAULT:
        return None
    changed = {"request_id": _next_id(request), "ttl_s": ttl_s, "prior": prior}
    again = request.model_copy(update=changed)
    return again if _fits(again) else None


def is_follow_up(request_id: str) -> bool:
    """Whether an id is one of those that are derived here."""
    root, mark, number = request_id.rpartition(MARK)
    return bool(root and mark) and number.isdecimal() and len(number) <= _NUMBER_CHARS_MAX


def root_of(request_id: str) -> str:
    """The id of the request that a follow-up goes back to, or the id itself."""
    return request_id.rpartition(MARK)[0] if is_follow_up(request_id) else request_id


def _next_id(request: Request) -> str:
    if is_follow_up(request.request_id):
        root, _, number = request.request_id.rpartition(MARK)
        return f"{root}{MARK}{int(number) + 1}"
    fits = len(request.request_id) + len(MARK) + _NUMBER_CHARS_MAX <= REQUEST_ID_CHARS_MAX
    return f"{request.request_id if fits else RequestKey.of(request).mark}{MARK}1"


def _is_spent(account: AccountState) -> bool:
    spent, limit = account.spent, account.limit
    amounts = [(spent.tokens, limit.tokens), (spent.micro_usd, limit.micro_usd)]
    return spent.attempts >= limit.attempts or any(
        most is not None and amount >= most for amount, most in amounts
    )


def _prior(
    earlier: Sequence[Prior], answered: AnyResult, refused: UnvalidatedResult
) -> tuple[Prior, ...]:
    """The attempts that the next one is shown; their numbers grow over all follow-ups."""
    answer = _kept(answered.answer)
    equal = (one.times for one in earlier if answer is not None and one.answer == answer)
    newest = Prior(
        attempt=answered.attempt + (earlier[-1].attempt if earlier else 0),
        failure=Invalid(problems=refused.problems),
        answer=answer,
        times=1 + max(equal, default=0),
    )
    return (*earlier, newest)[-PRIOR_ENTRIES_MAX:]


def _kept(answer: JsonValue) -> JsonValue:
    text = to_json(answer)
    is_large = len(text) > PRIOR_ANSWER_BYTES_MAX or has_more_values(text, PRIOR_VALUES_MAX)
    return None if is_large else answer


def _fits(request: Request) -> bool:
    value = encode(request).value or b""
    return len(value) <= REQUEST_BYTES_MAX and not has_more_values(value, REQUEST_VALUES_MAX)
