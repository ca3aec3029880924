"""An answer that breaks a rule of the caller's own class is asked for again, once."""

from datetime import timedelta
from typing import Annotated, Any

import pytest
from pydantic import (
    AfterValidator,
    BaseModel,
    JsonValue,
    TypeAdapter,
    field_validator,
    model_validator,
)
from pydantic_core import to_json

from answerbus.budget import AccountState, Budget, Spent
from answerbus.client import SyncClient
from answerbus.client.follow_up import follow_up, is_follow_up
from answerbus.client.testing import FakeClient, FakeClientError, answered, refused
from answerbus.dead_letter import BudgetExhausted, DeadLetter
from answerbus.failure import Invalid, Problem
from answerbus.limits import (
    EQUAL_ANSWERS_DEFAULT,
    PRIOR_ENTRIES_MAX,
    PRIOR_VALUES_MAX,
    REQUEST_BYTES_MAX,
    REQUEST_ID_CHARS_MAX,
    REQUEST_VALUES_MAX,
)
from answerbus.outcome import Refusal, Result, UnvalidatedResult
from answerbus.request import Fact, Policy, Prior, Request


class Version(BaseModel):
    v: str

    @field_validator("v")
    @classmethod
    def _semver(cls, v: str) -> str:
        if v.count(".") != 2:
            raise ValueError("not a semver such as 1.2.3")
        return v


class Span(BaseModel):
    first: int
    last: int

    @model_validator(mode="after")
    def _ordered(self) -> "Span":
        if self.first > self.last:
            raise ValueError("first after last")
        return self


def _even(n: int) -> int:
    if n % 2:
        raise ValueError("not even")
    return n


pytest_plugins = ["answerbus.client.testing.pytest_plugin"]

WRONG = Problem.of(
    "/v",
    "value_error",
    "not a semver such as 1.2.3",
    found="a text of 3 characters",
)
CASES: list[tuple[Any, Any, Any]] = [
    (Version, {"v": "1.2"}, {"v": "1.2.3"}),
    (Span, {"first": 2, "last": 1}, {"first": 1, "last": 2}),
    (Annotated[int, AfterValidator(_even)], 3, 4),
]


@pytest.mark.parametrize(("form", "wrong", "right"), CASES)
async def test_the_model_is_shown_what_the_validator_says(
    fake_client: FakeClient, form: Any, wrong: Any, right: Any
) -> None:
    fake_client.prepare(answered(wrong), answered(right))

    outcome = await fake_client.ask("Which?", response_model=form, request_id="r")

    assert isinstance(outcome, Result)
    assert outcome.answer == TypeAdapter(form).validate_python(right)
    first, second = fake_client.requests
    assert (first.prior, second.request_id) == ((), "r.again-1")
    assert second.workflow_id == first.workflow_id
    (prior,) = second.prior
    assert prior.answer == wrong
    assert isinstance(prior.failure, Invalid)


async def test_a_follow_up_says_what_is_wrong_where(fake_client: FakeClient) -> None:
    fake_client.prepare(
        answered({"v": "1.2"}), answered({"v": "one"}), answered({"v": "one"}), refused("No.")
    )

    outcome = await fake_client.ask(
        "Which?",
        response_model=Version,
        workflow_id="w",
        request_id="r",
        budget=Budget(attempts=4),
    )

    assert isinstance(outcome, Refusal)
    assert [request.request_id for request in fake_client.requests] == [
        "r",
        "r.again-1",
        "r.again-2",
        "r.again-3",
    ]
    assert fake_client.requests[3].prior == (
        Prior(attempt=1, failure=Invalid(problems=(WRONG,)), answer={"v": "1.2"}),
        Prior(attempt=2, failure=Invalid(problems=(WRONG,)), answer={"v": "one"}),
        Prior(attempt=3, failure=Invalid(problems=(WRONG,)), answer={"v": "one"}, times=2),
    )


async def test_who_asks_again_after_a_crash_asks_for_no_answer_twice(
    fake_client: FakeClient,
) -> None:
    fake_client.prepare(answered({"v": "1.2"}), answered({"v": "1.2.3"}))

    first = await fake_client.ask("Which?", response_model=Version, request_id="r")
    again = await fake_client.ask("Which?", response_model=Version, request_id="r")

    assert first == again
    assert fake_client.unused == 0  # a third answer would have been missed


async def test_a_validator_that_words_it_otherwise_makes_no_second_follow_up(
    fake_client: FakeClient,
) -> None:
    said: list[str] = []

    class Moody(BaseModel):
        v: str

        @field_validator("v")
        @classmethod
        def _good(cls, v: str) -> str:
            said.append(v)
            if v == "bad":
                raise ValueError(f"no, for the {len(said)}th time")
            return v

    fake_client.prepare(answered({"v": "bad"}), answered({"v": "good"}))

    first = await fake_client.ask("Which?", response_model=Moody, request_id="r")
    again = await fake_client.ask("Which?", response_model=Moody, request_id="r")

    assert isinstance(first, Result)
    assert again == first


def test_the_client_without_await_asks_again_as_well() -> None:
    fake = FakeClient()
    fake.prepare(answered({"v": "1.2"}), answered({"v": "1.2.3"}))

    with SyncClient(over=fake) as client:
        outcome = client.ask("Which?", response_model=Version)

    assert outcome.unwrap() == Version(v="1.2.3")


async def test_a_validator_that_fails_is_paid_for_once(
    fake_client: FakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    class Faulty(BaseModel):
        v: str

        @field_validator("v")
        @classmethod
        def _known(cls, v: str) -> str:
            return {"a": "b"}[v]

    fake_client.prepare(answered({"v": "secret"}))

    outcome = await fake_client.ask("Which?", response_model=Faulty)

    problem = Problem.of("", "validator_failed", "no error in a validator: KeyError")
    assert isinstance(outcome, UnvalidatedResult)
    assert (outcome.unvalidated_answer, outcome.problems) == ({"v": "secret"}, (problem,))
    assert (len(fake_client.requests), len(caplog.records)) == (1, 1)


async def test_the_budget_ends_it_as_it_ends_other_attempts(fake_client: FakeClient) -> None:
    fake_client.prepare(answered({"v": "1"}), answered({"v": "2"}))

    outcome = await fake_client.ask(
        "Which?", response_model=Version, workflow_id="w", budget=Budget(attempts=2)
    )

    assert isinstance(outcome, DeadLetter)
    assert outcome.cause == BudgetExhausted(which="attempts")
    assert str(outcome).startswith("Invalid 2 times: /v: a text of 1 characters: not a semver")


@pytest.mark.parametrize(
    "asking",
    [
        {"policy": Policy(on_invalid="dead_letter")},
        {"policy": Policy(at_last="unvalidated"), "budget": Budget(attempts=1)},
        {"agent": "helper"},  # its tools would be called again
    ],
)
async def test_where_no_answer_may_follow_the_invalid_one_is_given(
    fake_client: FakeClient, asking: Any
) -> None:
    fake_client.prepare(answered({"v": "1.2"}))

    outcome = await fake_client.ask("Which?", response_model=Version, **asking)

    assert isinstance(outcome, UnvalidatedResult)
    assert outcome.problems == (WRONG,)
    assert len(fake_client.requests) == 1


async def test_a_test_that_prepared_one_answer_is_told_that_another_is_asked_for(
    fake_client: FakeClient,
) -> None:
    fake_client.prepare(answered({"v": "1.2"}))

    with pytest.raises(FakeClientError, match=r"breaks a rule of its type .*not a semver"):
        await fake_client.ask("Which?", response_model=Version)


async def outcomes(fake: FakeClient) -> tuple[Request, Result[Any], UnvalidatedResult]:
    fake.prepare(answered({"v": "1.2"}))
    outcome = await fake.ask(
        "Which?", response_model=Version, policy=Policy(on_invalid="dead_letter"), request_id="r"
    )
    assert isinstance(outcome, UnvalidatedResult)
    found = await fake.outcome_of("r", "r")
    assert isinstance(found, Result)
    request = fake.requests[0].model_copy(update={"policy": Policy()})
    return request, found, outcome


async def test_the_same_answer_is_not_asked_for_for_ever(fake_client: FakeClient) -> None:
    request, result, refused_ = await outcomes(fake_client)
    asked = 0
    while again := follow_up(request, result, refused_):
        request, asked = again, asked + 1

    assert asked == 3
    assert request.prior[-1].times == 3


async def test_a_follow_up_keeps_within_the_wire(fake_client: FakeClient) -> None:
    request, result, refused_ = await outcomes(fake_client)
    long = request.model_copy(update={"request_id": "r" * REQUEST_ID_CHARS_MAX})
    for number in range(2 * PRIOR_ENTRIES_MAX):
        answer = result.model_copy(update={"answer": {"v": str(number)}})
        again = follow_up(long, answer, refused_)
        assert again is not None
        long = again

    assert len(long.prior) == PRIOR_ENTRIES_MAX
    assert is_follow_up(long.request_id)
    assert Request.model_validate_json(to_json(long)) == long

    large = result.model_copy(update={"answer": {"v": "x" * 40_000}})
    again = follow_up(request, large, refused_)
    assert again is not None
    assert again.prior[0].answer is None


async def test_a_follow_up_has_what_is_left_of_the_time(fake_client: FakeClient) -> None:
    request, result, refused_ = await outcomes(fake_client)
    late = result.model_copy(
        update={"requested_at": result.finished_at.replace(year=result.finished_at.year - 1)}
    )

    assert follow_up(request, late, refused_) is None
    asked_at = result.finished_at - timedelta(seconds=10.5)
    again = follow_up(request, result.model_copy(update={"requested_at": asked_at}), refused_)
    assert again is not None
    assert again.ttl_s == request.ttl_s - 11


@pytest.mark.parametrize(
    ("spent", "is_due"),
    [
        (Spent(attempts=1, tokens=9, micro_usd=9), True),
        (Spent(attempts=3), False),
        (Spent(attempts=1, tokens=10), False),
        (Spent(attempts=1, micro_usd=10), False),
    ],
)
@pytest.mark.parametrize("limit", [Budget(tokens=10, micro_usd=10), Budget()])
async def test_no_follow_up_takes_the_place_of_the_last_answer_that_a_budget_allows(
    fake_client: FakeClient, spent: Spent, is_due: bool, limit: Budget
) -> None:
    request, result, refused_ = await outcomes(fake_client)
    last = request.model_copy(update={"policy": Policy(at_last="unvalidated")})
    account = AccountState(id="w", limit=limit, spent=spent)
    again = follow_up(last, result.model_copy(update={"account": account}), refused_)

    unlimited = limit.tokens is None and spent.attempts < limit.attempts
    assert (again is not None) == (is_due or unlimited)


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        ("x" * (REQUEST_BYTES_MAX - 1_000), "y" * 1_000),
        ([0] * (REQUEST_VALUES_MAX - 100), [0] * 100),
    ],
)
async def test_no_follow_up_is_larger_than_workers_take(
    fake_client: FakeClient, value: JsonValue, answer: JsonValue
) -> None:
    request, result, refused_ = await outcomes(fake_client)
    context = request.context.model_copy(update={"facts": (Fact(name="f", value=value),)})
    full = request.model_copy(update={"context": context})

    assert follow_up(full, result, refused_) is not None
    assert follow_up(full, result.model_copy(update={"answer": answer}), refused_) is None


async def test_large_answers_are_not_taken_for_equal_ones(fake_client: FakeClient) -> None:
    request, result, refused_ = await outcomes(fake_client)
    for number in range(2 * EQUAL_ANSWERS_DEFAULT):
        large = result.model_copy(update={"answer": {"v": [number] * PRIOR_VALUES_MAX}})
        again = follow_up(request, large, refused_)
        assert again is not None
        request = again
    assert {one.answer for one in request.prior} == {None}


@pytest.mark.parametrize("name", ["r", "r.again-", "r.again-x", ".again-1", "r.again-12345678"])
def test_other_ids_are_not_those_of_follow_ups(name: str) -> None:
    assert not is_follow_up(name)
