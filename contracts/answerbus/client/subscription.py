"""Typed answers for downstream: a consumer group over outcomes, at least once."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any, Generic, Never, Self, TypeAlias, cast

from aiokafka import ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError
from typing_extensions import TypeVar

from answerbus.client.answer_type import AnswerType
from answerbus.client.bounded import STOP_TIMEOUT_S, bounded
from answerbus.client.bus import Bus
from answerbus.client.errors import BusUnavailable
from answerbus.client.records.batch import Record
from answerbus.client.records.consumer import RecordConsumer
from answerbus.client.records.unreadable import Unreadable
from answerbus.dead_letter import DeadLetter
from answerbus.envelope import Undecodable, decode
from answerbus.outcome import Refusal, Result, UnvalidatedResult
from answerbus.request import Request
from answerbus.topics import Topic

AnswerT = TypeVar("AnswerT")
DeadLetterT = TypeVar("DeadLetterT", default=Never)
"""DeadLetter where a subscription has them; nothing else can take its place."""

Item: TypeAlias = Result[AnswerT] | UnvalidatedResult | Refusal | Undecodable

COMMIT_INTERVAL_S = 1.0
_POLL_MS = 1_000

_log = logging.getLogger(__name__)


class Subscription(Generic[AnswerT, DeadLetterT]):
    """One contract's outcomes, as an asynchronous iterator inside of an `async with`.

        async with client.subscribe(response_model=PlanProposal, group_id="billing") as outcomes:
            async for outcome in outcomes:
                await book(outcome)

    An item is done when the loop comes back for the next one, or leaves the block without an
    exception; offsets of done items are committed at least every second while the loop runs.
    Delivery is at least once: after a crash, an exception or a rebalance an item may come again,
    with the same `event_id`. An invalid record that no other contract owns by its header arrives as
    Undecodable, so that nothing is passed over in silence. Dead letters, where wanted, are those of
    requests that asked for this type; those of unreadable records are not.
    """

    def __init__(
        self,
        bus: Bus,
        answers: AnswerType[AnswerT],
        group_id: str,
        options: Mapping[str, Any],
        topics: Sequence[Topic],
        *,
        children: bool = False,
    ) -> None:
        self._bus = bus
        self._children = children
        self._answers = answers
        self._topics = topics
        self._group_id = group_id
        self._options = options
        self._stack = AsyncExitStack()
        self._consumer: RecordConsumer | None = None
        self._handed_out: Record | None = None
        self._done: dict[TopicPartition, int] = {}
        self._commit_due = 0.0

    async def __aenter__(self) -> Self:
        await self._bus.counts(*self._topics)
        consumer = self._bus.consumer(
            group_id=self._group_id,
            # One member has the same partitions of all topics, so that a workflow stays together.
            partition_assignment_strategy=(RangePartitionAssignor,),
            **{"auto_offset_reset": "earliest", **self._options},
        )
        self._consumer = await self._stack.enter_async_context(self._bus.running(consumer))
        names = [topic.full_name(self._bus.prefix) for topic in self._topics]
        consumer.subscribe(names, listener=_Revocations(self._give_up))
        return self

    async def __aexit__(self, raised: type[BaseException] | None, *_: object) -> None:
        try:
            if raised is None:
                self._take_back()
            # What is not committed comes again; aiokafka tries as long as Kafka is away.
            with suppress(BusUnavailable, KafkaError, TimeoutError):
                await bounded(self._commit(), STOP_TIMEOUT_S)
        finally:
            self._consumer = None
            await self._stack.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> "Item[AnswerT] | DeadLetterT":
        self._take_back()
        while True:
            if asyncio.get_running_loop().time() >= self._commit_due:
                await self._commit()
            record = await self._next_record()
            if record is None:
                await self._commit()
                continue
            self._handed_out = record
            item = item_of(record, self._answers, children=self._children)
            if item is not None:
                return cast("Item[AnswerT] | DeadLetterT", item)
            self._take_back()
            await asyncio.sleep(0)  # buffered records of others must not keep the loop busy

    async def _next_record(self) -> Record | None:
        if self._consumer is None:
            raise RuntimeError("A Subscription is used inside of `async with ... as outcomes:`.")
        with self._bus.explained():
            found = await self._consumer.getmany(timeout_ms=_POLL_MS, max_records=1)
        return next((record for records in found.values() for record in records), None)

    def _take_back(self) -> None:
        """Mark the item that was handed out as done."""
        record, self._handed_out = self._handed_out, None
        if record is not None:
            self._done[TopicPartition(record.topic, record.partition)] = record.offset + 1

    async def _commit(self) -> None:
        self._commit_due = asyncio.get_running_loop().time() + COMMIT_INTERVAL_S
        done, self._done = self._done, {}
        if done and self._consumer is not None:
            # Either error says that the partitions are another member's now, which reads on from
            # the last commit.
            with self._bus.explained(), suppress(CommitFailedError, IllegalStateError):
                await self._consumer.commit(done)

    async def _give_up(self) -> None:
        """Commit before partitions are reassigned; items that are not done are delivered again."""
        await self._commit()
        self._done.clear()
        self._handed_out = None


class _Revocations(ConsumerRebalanceListener):  # type: ignore[misc] # aiokafka has no types
    def __init__(self, give_up: Callable[[], Awaitable[None]]) -> None:
        self._give_up = give_up

    async def on_partitions_revoked(self, revoked: object) -> None:  # noqa: ARG002
        await self._give_up()

    async def on_partitions_assigned(self, assigned: object) -> None:
        pass


def item_of(
    record: Record, answers: AnswerType[AnswerT], *, children: bool = False
) -> "Item[AnswerT] | DeadLetter | None":
    """The item that a record is for a reader of these answers; None for records of others.

    The headers `ce_contract` and `ce_parentid` save decoding the bodies of others; then the body
    decides. What ended a child goes to its run, and to subscribers with `children` alone.
    """
    if isinstance(record, Unreadable):
        return Undecodable((record.problem,))
    headers = dict(reversed(record.headers))  # the first of a name counts
    if headers.get("ce_contract") not in (None, answers.contract_header):
        return None
    if "ce_parentid" in headers and not children:
        return None
    event = decode(record.value, record.headers)
    match event:
        case Result() | UnvalidatedResult() | Refusal() | DeadLetter() if (
            event.parent and not children
        ):
            return None
        case Undecodable():
            _log.warning(
                "%s-%d@%d is not a valid event", record.topic, record.partition, record.offset
            )
            return event
        case Result():
            return answers.typed(event) if answers.covers(event.answered_schema) else None
        case UnvalidatedResult() | Refusal():
            return event if answers.covers(event.answered_schema) else None
        case DeadLetter(request=Request() as asked):
            return event if answers.covers(asked.answer_schema) else None
        case _:
            return None
