"""One workflow, several questions, a worker that is killed: what each adds, and what one names."""

import asyncio
import re
import time

import pytest

from answerbus.budget import Budget
from answerbus.client import Client
from answerbus.dead_letter import BudgetExhausted, DeadLetter
from answerbus.outcome import Result
from answerbus.topics import RUN_TOPICS, STEPS
from tests.integration.bus import Bus, create_topics

pytestmark = pytest.mark.kafka

REFUSED_WITHIN_S = 1.0


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


async def test_a_budget_of_a_tenant_holds_over_all_lanes_and_workers(bus: Bus) -> None:
    """A refusal follows within a second of the last call that the budget paid for."""
    await create_topics(bus, topics=RUN_TOPICS)
    config = bus.config(
        [{"reply": {"kind": "answered", "content": "Yes."}}],
        '[budgets."tenant:*"]\ncalls = {day = 9}\n[budgets."team:red"]\nusd = {month = 1}\n',
    )
    workers = [await asyncio.to_thread(bus.start_worker, config) for _ in range(2)]

    async with Client(bus.bootstrap, topic_prefix=bus.prefix) as client:
        labels = {"tenant": "acme", "team": "red"}
        outcomes = await asyncio.gather(
            *(client.ask("Is it?", labels=labels, timeout_s=60) for _ in range(16))
        )
        began = time.monotonic()
        late = await client.ask("Is it?", labels=labels, timeout_s=60)
        took_s = time.monotonic() - began
        other = await client.ask("Is it?", labels={"tenant": "umbrella"}, timeout_s=60)

    refused = [it.cause for it in (*outcomes, late) if isinstance(it, DeadLetter)]
    assert refused == 8 * [BudgetExhausted(which="attempts", budget="tenant:acme")]
    assert len(bus.calls()) == 10
    assert isinstance(other, Result)
    assert took_s < REFUSED_WITHIN_S
    pages = "".join(worker.get("/metrics").decode() for worker in workers)
    counted = re.findall(r'^answerbus_budgets_nearly_spent{budget="tenant:\*"} (.*)$', pages, re.M)
    assert sum(map(float, counted)) == 1
    logs = "".join(worker.log_file.read_text() for worker in workers)
    assert logs.count("80 % of the budget tenant:acme of") == 1
    (event,) = await bus.everything(STEPS)
    assert (event["kind"], event["budget"]) == ("budget_nearly_spent", "tenant:acme")
    assert event["limit"] == {"attempts": 9, "tokens": None, "micro_usd": None}
    assert event["spent"]["attempts"] in (8, 9)


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
