"""Asking from Python on a real Kafka: typed outcomes, many at once, in the face of everything."""

import asyncio
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import NewTopic
from aiokafka.errors import TopicAuthorizationFailedError
from pydantic import BaseModel, model_validator

from answerbus.answers.plan_proposal import DepBump, PlanProposal
from answerbus.budget import Budget
from answerbus.client import BusUnavailable, Client, NoAnswerYet
from answerbus.client.records.consumer import RecordConsumer
from answerbus.event import Event
from answerbus.outcome import Result, UnvalidatedResult
from answerbus.partition import partition_of
from answerbus.request import Context, ContractRef, Fact, InlineRef, Request, TextRef
from answerbus.topics import DEAD_LETTERS, REFUSALS, REQUESTS, RESULTS
from tests.integration.answering import answering, dead_letter, refusal, result, unvalidated, write
from tests.integration.bus import DEP_BUMP, Bus, until_ready
from tests.integration.kafka_admin import kafka_admin

pytestmark = pytest.mark.kafka

SHORT_S = 0.3


class Period(BaseModel):
    """Days of a year."""

    first: int
    last: int

    @model_validator(mode="after")
    def _in_order(self) -> "Period":
        if self.first > self.last:
            raise ValueError("first after last")
        return self


def client_of(bus: Bus) -> Client:
    return Client(bus.bootstrap, topic_prefix=bus.prefix)


def text_request(request_id: str, workflow_id: str = "w") -> Request:
    return Request(
        request_id=request_id,
        workflow_id=workflow_id,
        answer_schema=TextRef(),
        context=Context(instructions="Say hello."),
    )


async def test_a_request_that_was_answered_before_has_its_outcome_at_once(bus: Bus) -> None:
    """A consumer that reads its ticket twice asks the same twice."""
    asked: list[str] = []

    def answer(request: Request) -> list[Event]:
        if request.request_id in asked:
            return []  # as a worker drops a copy
        asked.append(request.request_id)
        return [result(request, "Hello.")]

    async with client_of(bus) as client, answering(bus, answer):
        first = [
            await client.ask("Say hello.", workflow_id="w", request_id=f"ticket-{number}")
            for number in range(20)
        ]
    async with client_of(bus) as client:  # nothing answers any more
        again = [
            await client.ask(
                "Say hello.", workflow_id="w", request_id=f"ticket-{number}", timeout_s=20
            )
            for number in (0, 19)
        ]
        # In another workflow it is another request; of another one, its id would be taken.
        others = [
            client.ask(question, workflow_id=workflow, request_id="ticket-0", timeout_s=2)
            for question, workflow in (("Say hello.", "x"), ("Say bye.", "w"))
        ]
        unanswered = await asyncio.gather(*others, return_exceptions=True)

    assert again == [first[0], first[19]]
    assert [type(one) for one in unanswered] == 2 * [NoAnswerYet]


async def test_a_contract_is_asked_for_by_its_type_and_answered_in_it(bus: Bus) -> None:
    asked: list[Request] = []

    def answer(request: Request) -> list[Event]:
        asked.append(request)
        return [result(request, DEP_BUMP)]

    async with client_of(bus) as client, answering(bus, answer):
        outcome = await client.ask(
            "Propose a change.",
            workflow_id="order-1",
            response_model=PlanProposal,
            facts={"manifest": {"lodash": "4.17.20"}, "period": Period(first=1, last=2)},
            budget=Budget(attempts=2),
            labels={"tenant": "acme"},
            request_id="r-1",
        )

    assert isinstance(outcome, Result)
    assert outcome.answer == DepBump.model_validate(DEP_BUMP)
    assert asked == [
        Request(
            request_id="r-1",
            workflow_id="order-1",
            answer_schema=ContractRef(name="plan_proposal", version=1),
            context=Context(
                instructions="Propose a change.",
                facts=(
                    Fact(name="manifest", value={"lodash": "4.17.20"}),
                    Fact(name="period", value={"first": 1, "last": 2}),
                ),
            ),
            budget=Budget(attempts=2),
            labels={"tenant": "acme"},
        )
    ]


async def test_any_other_type_is_asked_for_by_its_schema(bus: Bus) -> None:
    asked: list[Request] = []

    def answer(request: Request) -> list[Event]:
        asked.append(request)
        return [result(request, {"first": 3, "last": 5})]

    async with client_of(bus) as client, answering(bus, answer):
        outcome = await client.ask("When?", workflow_id="w", response_model=Period)

    assert isinstance(outcome, Result)
    assert outcome.answer == Period(first=3, last=5)
    assert asked[0].answer_schema == InlineRef(
        name="Period",
        description="Days of a year.",
        wrapped=False,
        json_schema={**Period.model_json_schema(), "additionalProperties": False},
    )


async def test_an_answer_that_only_the_type_refuses_is_not_taken_for_one(bus: Bus) -> None:
    """No JSON Schema can say that `first` is not after `last`."""
    async with (
        client_of(bus) as client,
        answering(bus, lambda request: [result(request, {"first": 5, "last": 3})]),
    ):
        outcome = await client.ask("When?", workflow_id="w", response_model=Period)

    assert isinstance(outcome, UnvalidatedResult)
    assert outcome.unvalidated_answer == {"first": 5, "last": 3}
    assert [problem.code for problem in outcome.problems] == ["value_error"]


async def test_every_terminal_ends_the_wait(bus: Bus) -> None:
    kinds: dict[str, Callable[[Request], Event]] = {
        "result": lambda request: result(request, "Goeie!"),
        "unvalidated": lambda request: unvalidated(request, "Goeie!"),
        "refusal": lambda request: refusal(request, "no"),
        "dead_letter": dead_letter,
    }

    async with (
        client_of(bus) as client,
        answering(bus, lambda request: [kinds[request.workflow_id](request)]),
    ):
        outcomes = [await client.ask("Say hello.", workflow_id=name) for name in kinds]

    assert [type(outcome).__name__.partition("[")[0] for outcome in outcomes] == [
        "Result",
        "UnvalidatedResult",
        "Refusal",
        "DeadLetter",
    ]
    assert isinstance(outcomes[0], Result)
    assert outcomes[0].answer == "Goeie!"


async def test_hundreds_of_asks_at_once_get_each_their_own_answer(bus: Bus) -> None:
    count = 400

    async with (
        client_of(bus) as client,
        answering(bus, lambda request: [result(request, request.context.instructions)]),
        asyncio.timeout(60),
    ):
        outcomes = await asyncio.gather(
            *(client.ask(f"say {n}", workflow_id=f"w-{n}") for n in range(count))
        )

    texts = [outcome.answer for outcome in outcomes if isinstance(outcome, Result)]
    assert texts == [f"say {n}" for n in range(count)]


async def test_a_client_can_rest_and_ask_again(bus: Bus) -> None:
    """Partitions in which nobody waits are not read; what is written meanwhile is passed over."""
    async with client_of(bus) as client, AIOKafkaProducer(bootstrap_servers=bus.bootstrap) as other:
        for number in range(3):
            async with answering(bus, lambda request: [result(request, request.request_id)]):
                outcome = await client.ask("Hi", workflow_id="w", request_id=f"r-{number}")
            place = partition_of("w", bus.partitions)
            await write(bus, other, place, result(text_request(f"others-{number}"), "noise"))

            assert isinstance(outcome, Result)
            assert outcome.answer == f"r-{number}"
            reader = client._connection._reader
            assert reader is not None
            assert reader._consumer is not None
            assert reader._consumer.paused() == reader._consumer.assignment()


async def test_what_is_no_event_and_what_others_asked_is_passed_over(bus: Bus) -> None:
    place = partition_of("w", bus.partitions)
    junk: list[tuple[bytes | None, list[tuple[str, bytes | None]]]] = [
        (None, []),
        (b"\xff", [("ce_requestid", None)]),
        (b"{}", [("ce_requestid", b"\xff")]),
        (b'{"kind":"result"}', [("ce_requestid", b"mine")]),
        (b"[" * 10_000, []),
    ]

    async with client_of(bus) as client, AIOKafkaProducer(bootstrap_servers=bus.bootstrap) as raw:
        asking = asyncio.create_task(client.ask_request(text_request("mine"), timeout_s=20))
        await published(bus, place)
        for topic in (RESULTS, REFUSALS, DEAD_LETTERS):
            for value, headers in junk:
                name = bus.topic(topic)
                await raw.send_and_wait(name, value, b"k", place, headers=headers)
        await write(bus, raw, place, refusal(text_request("another"), "no"))
        await raw.send_and_wait(  # an event without headers is one all the same
            bus.topic(RESULTS),
            result(text_request("mine"), "found").model_dump_json().encode(),
            partition=place,
        )
        outcome = await asking

    assert isinstance(outcome, Result)
    assert outcome.answer == "found"


async def published(bus: Bus, partition: int) -> None:
    """Wait until there is a request in a partition."""
    place = TopicPartition(bus.topic(REQUESTS), partition)
    async with (
        AIOKafkaConsumer(bootstrap_servers=bus.bootstrap, auto_offset_reset="earliest") as consumer,
        asyncio.timeout(20),
    ):
        consumer.assign([place])
        await consumer.getone()


async def test_what_a_worker_took_back_is_never_seen(bus: Bus) -> None:
    """An aborted transaction is that of a worker that was fenced."""
    place = partition_of("w", bus.partitions)
    fenced = AIOKafkaProducer(bootstrap_servers=bus.bootstrap, transactional_id=bus.prefix)

    async with client_of(bus) as client, fenced:
        asking = asyncio.create_task(client.ask_request(text_request("r"), timeout_s=20))
        await published(bus, place)
        await fenced.begin_transaction()
        await write(bus, fenced, place, result(text_request("r"), "taken back"))
        await fenced.abort_transaction()
        await fenced.begin_transaction()
        await write(bus, fenced, place, result(text_request("r"), "committed"))
        await fenced.commit_transaction()
        outcome = await asking

    assert isinstance(outcome, Result)
    assert outcome.answer == "committed"


async def test_without_an_answer_in_time_the_wait_can_go_on_elsewhere(bus: Bus) -> None:
    async with client_of(bus) as client:
        with pytest.raises(NoAnswerYet, match=r"outcome_of\('late', 'w'\)") as raised:
            await client.ask_request(text_request("late"), timeout_s=SHORT_S)
        with pytest.raises(NoAnswerYet):
            await client.outcome_of("late", "w", timeout_s=SHORT_S)

    assert (raised.value.request_id, raised.value.workflow_id) == ("late", "w")
    async with (
        client_of(bus) as other,
        answering(bus, lambda request: [result(request, "at last")]),
    ):
        outcome = await other.outcome_of("late", "w", response_model=str, timeout_s=20)
        again = await other.outcome_of("late", "w", timeout_s=20)
    assert isinstance(outcome, Result)
    assert outcome.answer == "at last"
    assert isinstance(again, Result)


async def test_a_published_request_stands_in_the_partition_of_its_workflow(bus: Bus) -> None:
    async with client_of(bus) as client:
        first = await client.publish(text_request("a", "order-4711"))
        second = await client.publish(text_request("b", "order-4711"))

    assert first.partition == second.partition == partition_of("order-4711", bus.partitions)
    assert (first.request_id, first.offset) == ("a", 0)
    assert (second.request_id, second.offset) == ("b", 1)


async def test_a_request_that_is_too_large_is_not_published(bus: Bus) -> None:
    async with client_of(bus) as client:
        with pytest.raises(ValueError, match="of at most 524,288"):
            await client.ask("x" * 600_000, workflow_id="w")


async def test_two_who_ask_the_same_get_the_same(bus: Bus) -> None:
    request = text_request("same")
    async with (
        client_of(bus) as client,
        answering(bus, lambda request: [result(request, "once")]),
    ):
        outcomes = await asyncio.gather(*(client.ask_request(request) for _ in range(2)))

    assert outcomes[0] == outcomes[1]


async def test_closing_a_client_ends_its_waits(bus: Bus) -> None:
    client = client_of(bus)
    async with client:
        asking = asyncio.create_task(client.ask_request(text_request("r"), timeout_s=None))
        await published(bus, partition_of("w", bus.partitions))

    with pytest.raises(BusUnavailable, match="closed"):
        await asking
    with pytest.raises(RuntimeError, match="async with"):
        await client.publish(text_request("r"))


async def test_a_client_goes_on_after_its_reader_has_failed(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with client_of(bus) as client:

        async def refused(*_: object, **__: object) -> None:
            raise TopicAuthorizationFailedError(bus.topic(RESULTS))

        with monkeypatch.context() as patched:
            patched.setattr(RecordConsumer, "getmany", refused)
            with pytest.raises(BusUnavailable):
                await client.ask("Say hello.", workflow_id="w", timeout_s=20)
        async with answering(bus, lambda request: [result(request, "Hello.")]):
            outcome = await client.ask("Say hello.", workflow_id="w", timeout_s=20)

    assert outcome.kind == "result"


async def test_a_client_that_is_closed_while_its_reader_starts_leaves_none(bus: Bus) -> None:
    async with client_of(bus) as client:
        first = asyncio.create_task(client.ask("Say hello.", workflow_id="w"))
        await asyncio.sleep(0)
    with pytest.raises((BusUnavailable, RuntimeError), match=r"closed|async with"):
        await first
    left = [task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert "answerbus outcomes" not in left


async def test_a_broker_that_is_not_there_is_said_so(unused_tcp_port: int) -> None:
    with pytest.raises(BusUnavailable, match="see that a broker runs there"):
        async with Client(f"127.0.0.1:{unused_tcp_port}"):
            pytest.fail("there is no broker")


async def test_missing_topics_are_named_and_not_made(
    kafka_bootstrap: str, make_prefix: Callable[[], str]
) -> None:
    prefix = make_prefix()
    with pytest.raises(BusUnavailable, match=f"no topic {prefix}.requests.v1 .* topics apply"):
        async with Client(kafka_bootstrap, topic_prefix=prefix):
            pytest.fail("there is no topic")

    assert await topics_with(kafka_bootstrap, prefix) == set()


async def topics_with(bootstrap: str, prefix: str) -> set[str]:
    async with kafka_admin(bootstrap) as admin:
        return {name for name in await admin.list_topics() if name.startswith(prefix)}


async def test_a_topic_with_fewer_partitions_than_the_others_counts_before_there_is_a_ledger(
    kafka_bootstrap: str, make_prefix: Callable[[], str]
) -> None:
    prefix = make_prefix()
    sizes = {REQUESTS: 2, RESULTS: 2, REFUSALS: 3, DEAD_LETTERS: 2}
    async with kafka_admin(kafka_bootstrap) as admin:
        await admin.create_topics([NewTopic(t.full_name(prefix), n, 1) for t, n in sizes.items()])
        await until_ready(admin, [topic.full_name(prefix) for topic in sizes])

    async with Client(kafka_bootstrap, topic_prefix=prefix) as client:
        with pytest.raises(NoAnswerYet):
            await client.ask("Hi", workflow_id="w", timeout_s=0.5)
