"""A rule of the caller's own class, a worker and a client that dies: each answer is paid once."""

from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from answerbus.budget import Budget
from answerbus.client import Client
from answerbus.dead_letter import BudgetExhausted, DeadLetter
from answerbus.outcome import Result
from tests.integration.bus import Bus

pytestmark = pytest.mark.kafka

WRONG, RIGHT = {"v": "1.2"}, {"v": "1.2.3"}


class Died(BaseException):
    """The process of the client ends here."""


class Dying(BaseModel, title="Version"):  # so that it is the same request
    v: str

    @field_validator("v")
    @classmethod
    def _dies(cls, v: str) -> str:
        raise Died


class Version(BaseModel, title="Version"):
    v: str

    @field_validator("v")
    @classmethod
    def _semver(cls, v: str) -> str:
        if v.count(".") != 2:
            raise ValueError("not a semver such as 1.2.3")
        return v


def answers(**when: str) -> list[dict[str, Any]]:
    """Right once the model is shown what `when` says, wrong before."""
    return [
        {"when": when, "reply": {"kind": "answered", "json": RIGHT}},
        {"reply": {"kind": "answered", "json": WRONG}},
    ]


async def test_a_client_that_dies_asks_about_no_answer_twice(bus: Bus) -> None:
    bus.start_worker(bus.config(answers(contains="/v: not a semver such as 1.2.3")))
    asking: Any = {"request_id": "ticket-17", "timeout_s": 60}

    dying = Client(bus.bootstrap, topic_prefix=bus.prefix)
    with pytest.raises(Died):
        async with dying as client:
            await client.ask("Which?", response_model=Dying, **asking)
    outcomes = []
    for _ in range(2):
        async with Client(bus.bootstrap, topic_prefix=bus.prefix) as client:
            outcomes.append(await client.ask("Which?", response_model=Version, **asking))

    first, second = outcomes
    assert isinstance(first, Result)
    assert first == second
    assert (first.answer, first.request_id) == (Version(v="1.2.3"), "ticket-17.again-1")
    assert first.workflow_id == "ticket-17"
    assert first.account.spent.attempts == len(bus.calls()) == 2


async def test_a_model_that_keeps_to_its_answer_ends_with_the_budget(bus: Bus) -> None:
    bus.start_worker(bus.config(answers(contains="never said")))

    async with Client(bus.bootstrap, topic_prefix=bus.prefix) as client:
        outcome = await client.ask("Which?", response_model=Version, timeout_s=60)
        named = await client.ask(
            "Which?", response_model=Version, budget=Budget(attempts=2), timeout_s=60
        )

    for ended, attempts in ((outcome, 3), (named, 2)):
        assert isinstance(ended, DeadLetter)
        assert ended.cause == BudgetExhausted(which="attempts")
        assert str(ended).startswith(f"Invalid {attempts} times: /v: ")
        assert [prior.attempt for prior in ended.prior] == [*range(1, attempts + 1)]
    assert len(bus.calls()) == 5
