"""One workflow, several questions, a worker that is killed: what each adds, and what one names."""

import pytest

from answerbus.budget import Budget
from answerbus.client import Client
from answerbus.outcome import Result
from tests.integration.bus import Bus

pytestmark = pytest.mark.kafka


async def test_each_question_without_a_budget_has_its_own_attempts(bus: Bus) -> None:
    config = bus.config([{"reply": {"kind": "answered", "content": "Yes."}}])
    worker = bus.start_worker(config)

    async with Client(bus.bootstrap, topic_prefix=bus.prefix) as client:
        for number in range(1, 8):
            if number == 4:
                worker.kill()
                bus.start_worker(config)
            outcome = await client.ask("Is it?", workflow_id="w", timeout_s=60)
            assert isinstance(outcome, Result)
            assert outcome.account.spent.attempts == number
            assert outcome.account.limit == Budget(attempts=3 * number)

    assert len(bus.calls()) == 7


async def test_a_later_budget_is_noted_with_the_request_that_settled_it(bus: Bus) -> None:
    bus.start_worker(bus.config([{"reply": {"kind": "answered", "content": "Yes."}}]))

    async with Client(bus.bootstrap, topic_prefix=bus.prefix) as client:
        for name, attempts in (("first", 2), ("second", 50)):
            outcome = await client.ask(
                "Is it?",
                workflow_id="w",
                request_id=name,
                budget=Budget(attempts=attempts),
                timeout_s=60,
            )
            assert isinstance(outcome, Result)
            assert outcome.account.limit == Budget(attempts=2)

    (note,) = outcome.notes
    assert note == (
        "its budget is not used: request first has settled that of the workflow, 2 attempts in "
        "all; a replay has a budget of its own"
    )
