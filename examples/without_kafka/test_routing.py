"""A service that asks, and its tests without Kafka, workers or a model."""

import pytest
from pydantic import BaseModel

from answerbus.client import Client, NoAnswerYet
from answerbus.client.testing import FakeClient, Reply, answered, dead_letter, refused, silence
from answerbus.dead_letter import BudgetExhausted
from answerbus.outcome import Result


class Route(BaseModel):
    team: str


async def team_for(client: Client, ticket: str) -> str:
    """The service; it takes its client, so that a test can give it another."""
    try:
        outcome = await client.ask(
            "Which team takes this ticket?",
            workflow_id="tickets",
            response_model=Route,
            facts={"ticket": ticket},
        )
    except NoAnswerYet:
        return "later"
    return outcome.answer.team if isinstance(outcome, Result) else "a person"


async def test_the_model_chooses_the_team(fake_client: FakeClient) -> None:
    fake_client.prepare(answered(Route(team="billing")))

    assert await team_for(fake_client, "I was charged twice.") == "billing"
    (fact,) = fake_client.requests[0].context.facts
    assert fact.value == "I was charged twice."


@pytest.mark.parametrize("reply", [refused("No."), dead_letter(BudgetExhausted(which="tokens"))])
async def test_without_an_answer_a_person_decides(fake_client: FakeClient, reply: Reply) -> None:
    fake_client.prepare(reply)

    assert await team_for(fake_client, "?") == "a person"


async def test_what_takes_too_long_waits(fake_client: FakeClient) -> None:
    fake_client.prepare(silence())

    assert await team_for(fake_client, "?") == "later"


async def test_a_class_that_the_model_cannot_fill_is_found_here() -> None:
    fake = FakeClient(profiles={"default"})  # the names in the workers' settings

    fake.prepare(answered({"tema": "billing"}))
    with pytest.raises(AssertionError, match="/team"):
        await team_for(fake, "?")
