"""Subscribing from Python on a real Kafka: one contract's answers, at least once, never lost."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from pydantic import BaseModel

from answerbus.answers.plan_proposal import DepBump, PlanProposal
from answerbus.client import BusUnavailable, Client
from answerbus.client.subscription import Item, Subscription
from answerbus.dead_letter import DeadLetter, Dismissed
from answerbus.envelope import Undecodable
from answerbus.event import Event
from answerbus.outcome import Refusal, Result, UnvalidatedResult
from answerbus.partition import partition_of
from answerbus.request import Context, ContractRef, InlineRef, Request, SchemaRef, TextRef
from answerbus.topics import RESULTS
from tests.integration.answering import NOW, dead_letter, refusal, result, unvalidated, write
from tests.integration.bus import DEP_BUMP, Bus

pytestmark = pytest.mark.kafka

LIMIT_S = 30.0
PLAN = ContractRef(name="plan_proposal", version=1)
ROUTE = InlineRef(name="Route", wrapped=False, json_schema={})


class Route(BaseModel):
    team: str


class WorkError(Exception):
    """What happens to a consumer of ours in the middle of its work."""


def request(request_id: str, schema: SchemaRef = PLAN, workflow_id: str = "w") -> Request:
    return Request(
        request_id=request_id,
        workflow_id=workflow_id,
        answer_schema=schema,
        context=Context(instructions="Propose a change."),
    )


async def written(bus: Bus, *events: Event, partition: int = 0) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bus.bootstrap) as producer:
        for event in events:
            await write(bus, producer, partition, event)


@pytest.fixture
async def client(bus: Bus) -> AsyncIterator[Client]:
    async with Client(bus.bootstrap, topic_prefix=bus.prefix) as client:
        yield client


def plans(client: Client) -> Subscription[PlanProposal]:
    return client.subscribe(response_model=PlanProposal, group_id="billing")


async def take(subscription: Subscription[PlanProposal], count: int) -> list[str]:
    """The ids of the next items, of which the last is not done."""
    ids: list[str] = []
    async with asyncio.timeout(LIMIT_S):
        async for item in subscription:
            assert not isinstance(item, Undecodable)
            ids.append(item.request_id)
            if len(ids) == count:
                break
    return ids


async def test_results_and_refusals_of_one_contract_come_typed(bus: Bus, client: Client) -> None:
    await written(
        bus,
        result(request("others-1", TextRef()), "text"),
        result(request("others-2", ContractRef(name="plan_proposal", version=2)), DEP_BUMP),
        result(request("others-3", ContractRef(name="other", version=1)), DEP_BUMP),
        result(request("mine-1"), DEP_BUMP),
        unvalidated(request("mine-2"), {}),
        refusal(request("others-4", ROUTE), "no"),
        refusal(request("mine-3"), "no"),
    )
    found: dict[str, Item[PlanProposal]] = {}
    async with plans(client) as outcomes, asyncio.timeout(LIMIT_S):
        async for item in outcomes:
            assert not isinstance(item, Undecodable)
            found[item.request_id] = item
            if len(found) == 3:
                break

    assert found.keys() == {"mine-1", "mine-2", "mine-3"}
    first = found["mine-1"]
    assert isinstance(first, Result)
    assert first.answer == DepBump.model_validate(DEP_BUMP)
    assert isinstance(found["mine-2"], UnvalidatedResult)
    assert isinstance(found["mine-3"], Refusal)


async def test_an_inline_type_goes_by_its_name(bus: Bus, client: Client) -> None:
    other = InlineRef(name="Weather", wrapped=False, json_schema={})
    wrapped = InlineRef(name="Route", wrapped=True, json_schema={})
    await written(
        bus,
        result(request("others-1", other), {"team": "x"}),
        result(request("others-2", wrapped), {"output": {"team": "x"}, "success": True}),
        result(request("mine-1", ROUTE), {"team": "web"}),
        result(request("mine-2", ROUTE), {"tema": "web"}),
    )
    found: list[Item[Route]] = []
    async with (
        client.subscribe(response_model=Route, group_id="g", refusals=False) as outcomes,
        asyncio.timeout(LIMIT_S),
    ):
        async for item in outcomes:
            found.append(item)
            if len(found) == 2:
                break

    assert isinstance(found[0], Result)
    assert found[0].answer == Route(team="web")
    assert isinstance(found[1], UnvalidatedResult)


async def test_dead_letters_of_one_contract_come_where_they_are_wanted(
    bus: Bus, client: Client
) -> None:
    operators = Dismissed(dead_letter_id="mine.dead-letter", by="ada", reason="known", at=NOW)
    await written(
        bus,
        dead_letter(request("others-1", TextRef())),
        dead_letter(request("others-2")).model_copy(update={"request": None}),
        dead_letter(request("mine")),
        operators,
        result(request("last"), DEP_BUMP),
    )
    found: dict[str, Item[PlanProposal] | DeadLetter] = {}
    wanted = client.subscribe(response_model=PlanProposal, group_id="g", dead_letters=True)
    async with wanted as outcomes, asyncio.timeout(LIMIT_S):
        async for item in outcomes:
            assert not isinstance(item, Undecodable)
            found[str(item.request_id)] = item
            if len(found) == 2:
                break
    async with plans(client) as outcomes_alone:
        without = await take(outcomes_alone, 1)

    assert found.keys() == {"mine", "last"}
    assert isinstance(found["mine"], DeadLetter)
    assert without == ["last"]


async def test_a_body_decides_against_its_header_and_bytes_that_are_no_event_are_shown(
    bus: Bus, client: Client
) -> None:
    """Unless the header says that they are another contract's."""
    mine, others = b"plan_proposal.v1", b"other.v1"
    body = result(request("others"), DEP_BUMP).model_dump_json().replace("plan_proposal", "other")
    good = result(request("mine"), DEP_BUMP).model_dump_json().encode()
    async with AIOKafkaProducer(bootstrap_servers=bus.bootstrap) as raw:
        for value, contract in (
            (body.encode(), mine),
            (b"\xff", others),
            (b"\xff", mine),
            (b"{}", None),
            (good, None),
        ):
            headers = [("ce_contract", contract)]
            await raw.send_and_wait(bus.topic(RESULTS), value, partition=0, headers=headers)
        await raw.send_and_wait(bus.topic(RESULTS), good, partition=0)

    found: list[Item[PlanProposal]] = []
    async with plans(client) as outcomes, asyncio.timeout(LIMIT_S):
        async for item in outcomes:
            found.append(item)
            if len(found) == 4:
                break

    kinds = [type(item).__name__.partition("[")[0] for item in found]
    assert kinds == ["Undecodable", "Undecodable", "Result", "Result"]


async def test_what_was_done_does_not_come_again(bus: Bus, client: Client) -> None:
    await written(bus, *(result(request(f"r-{n}"), DEP_BUMP) for n in range(5)))

    async with plans(client) as outcomes:
        first = await take(outcomes, 3)
    async with plans(client) as outcomes:
        second = await take(outcomes, 2)

    assert (first, second) == (["r-0", "r-1", "r-2"], ["r-3", "r-4"])


async def test_what_was_not_done_comes_again(bus: Bus, client: Client) -> None:
    """The one at work when the exception was raised; those before it were done."""
    await written(bus, *(result(request(f"r-{n}"), DEP_BUMP) for n in range(4)))

    async def fail() -> None:
        async with plans(client) as outcomes:
            await take(outcomes, 3)
            raise WorkError

    with pytest.raises(WorkError):
        await fail()
    async with plans(client) as outcomes:
        again = await take(outcomes, 2)

    assert again == ["r-2", "r-3"]


async def test_a_consumer_that_is_killed_loses_nothing(bus: Bus, client: Client) -> None:
    """What was at work comes again, and at most what a second had done before."""
    await written(bus, *(result(request(f"r-{n}"), DEP_BUMP) for n in range(4)))
    dying = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).with_name("dying_subscriber.py")),
        bus.bootstrap,
        bus.prefix,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},  # noqa: TID251 - for a child
    )
    assert dying.stdout is not None
    async with asyncio.timeout(LIMIT_S):
        named = [(await dying.stdout.readline()).decode().strip() for _ in range(2)]
    dying.kill()
    await dying.communicate()

    again: list[str] = []
    async with plans(client) as outcomes:
        while again[-1:] != ["r-3"]:
            again += await take(outcomes, 1)

    assert named == ["r-0", "r-1"]
    assert again in (["r-0", "r-1", "r-2", "r-3"], ["r-1", "r-2", "r-3"])


async def test_members_of_a_group_share_and_a_workflow_stays_with_one(
    bus: Bus, client: Client
) -> None:
    names = [f"w-{n}" for n in range(12)]
    seen: list[list[tuple[str, str]]] = [[], [], []]

    async def member(mine: list[tuple[str, str]], outcomes: Subscription[PlanProposal]) -> None:
        async for item in outcomes:
            assert not isinstance(item, Undecodable)
            mine.append((item.workflow_id, item.event_id))

    async with (
        plans(client) as one,
        plans(client) as two,
        plans(client) as three,
        asyncio.timeout(LIMIT_S),
    ):
        members = (one, two, three)
        tasks = [
            asyncio.create_task(member(mine, outcomes))
            for mine, outcomes in zip(seen, members, strict=True)
        ]
        await until(lambda: all(m._consumer and m._consumer.assignment() for m in members))
        for name in names:
            events: Sequence[Event] = (
                result(request(f"{name}-a", workflow_id=name), DEP_BUMP),
                refusal(request(f"{name}-b", workflow_id=name), "no"),
            )
            await written(bus, *events, partition=partition_of(name, bus.partitions))
        await until(lambda: len({e for mine in seen for _, e in mine}) == 2 * len(names))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    workflows = [{workflow for workflow, _ in mine} for mine in seen]
    assert all(workflows)
    assert sum(map(len, workflows)) == len(set.union(*workflows)) == len(names)


async def until(condition: Callable[[], object]) -> None:
    """Wait for a condition, for as long as the block around allows."""
    while not condition():
        await asyncio.sleep(0.05)


async def test_a_subscription_needs_its_block_and_its_topics(bus: Bus, client: Client) -> None:
    with pytest.raises(RuntimeError, match="async with"):
        await anext(plans(client))
    nowhere = Client(bus.bootstrap, topic_prefix="nowhere")
    with pytest.raises(BusUnavailable, match=r"nowhere\.results\.v1"):
        async with plans(nowhere):
            pytest.fail("there is no such topic")
