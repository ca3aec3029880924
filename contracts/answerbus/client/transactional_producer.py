"""aiokafka's transactional producer, without its two ways to commit half of a transaction.

It lacks InitProducerId as of version 3 (KIP-360), the next epoch of a producer, too.
"""

import asyncio
import logging
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from itertools import chain
from typing import Any, TypeVar

from aiokafka import AIOKafkaProducer
from aiokafka.client import ConnectionGroup, CoordinationType
from aiokafka.errors import (
    ConcurrentTransactions,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    IllegalOperation,
    InvalidProducerEpoch,
    InvalidTxnState,
    KafkaConnectionError,
    KafkaError,
    NodeNotReadyError,
    NotCoordinatorError,
    ProducerClosed,
    ProducerFenced,
    RequestTimedOutError,
    TopicAuthorizationFailedError,
    for_code,
)
from aiokafka.producer.sender import Sender, SendProduceReqHandler
from aiokafka.producer.transaction_manager import PidAndEpoch, TransactionResult, TransactionState
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.protocol.transaction import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    TxnOffsetCommitRequest,
)
from aiokafka.protocol.types import CompactString, Int16, Int32, Int64, Schema, TaggedFields

from answerbus.client.bootstrap import share_start

API_KEY = 22
API_VERSION = 3  # Kafka 2.5; from 4 on the broker also answers with an error that aiokafka lacks
_PRODUCER = (("producer_id", Int64), ("producer_epoch", Int16))


class _Answer(Response):  # type: ignore[misc]  # aiokafka has no types
    API_KEY = API_KEY
    API_VERSION = API_VERSION
    SCHEMA = Schema(
        ("throttle_time_ms", Int32), ("error_code", Int16), *_PRODUCER, ("tags", TaggedFields)
    )


class _Struct(RequestStruct):  # type: ignore[misc]
    FLEXIBLE_VERSION = True
    API_KEY = API_KEY
    API_VERSION = API_VERSION
    RESPONSE_TYPE = _Answer
    SCHEMA = Schema(
        ("transactional_id", CompactString("utf-8")),
        ("transaction_timeout_ms", Int32),
        *_PRODUCER,
        ("tags", TaggedFields),
    )


class NextEpochRequest(Request[_Struct]):  # type: ignore[misc]
    """Granted only to the producer that has the last epoch.

    In version 0 any producer is granted one: a producer whose transactional id has a new owner
    would shut that owner out.
    """

    API_KEY = API_KEY

    def __init__(self, transactional_id: str, timeout_ms: int, producer: tuple[int, int]) -> None:
        """`producer` is its id and its epoch."""
        self._fields = transactional_id, timeout_ms, *producer

    def build(self, request_struct_class: type[_Struct]) -> _Struct:
        """See aiokafka."""
        return request_struct_class(*self._fields, {})


_log = logging.getLogger(__name__)

T = TypeVar("T")
THROTTLED_MS_MIN = 1_000  # to be worth a line of the log
_FAILED = {TransactionState.ABORTABLE_ERROR, TransactionState.FATAL_ERROR}
_OF_TRANSACTIONS = (
    AddPartitionsToTxnRequest,
    ProduceRequest,
    AddOffsetsToTxnRequest,
    TxnOffsetCommitRequest,
    EndTxnRequest,
)
_TRANSIENT = (
    ConcurrentTransactions,  # the transaction before is being ended
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    KafkaConnectionError,
    NodeNotReadyError,
    NotCoordinatorError,
    RequestTimedOutError,
)


class SequentialSender(Sender):  # type: ignore[misc]  # has no types
    """Sends the requests of a transaction one after another.

    aiokafka's sender makes a task of each and waits for several things at once, which is a third
    of the CPU of a transaction. A transaction gains nothing by that: it adds its partitions before
    it writes to them, and ends when all is written.
    """

    has_lost_coordinator = False  # in this epoch

    def _coordinator_dead(self, coordinator_type: CoordinationType) -> None:
        self.has_lost_coordinator |= coordinator_type is CoordinationType.TRANSACTION
        super()._coordinator_dead(coordinator_type)

    async def _sender_routine(self) -> None:
        try:
            while True:
                if not await self._send_next():
                    # Either may wake it: a new batch, or a request for the coordinator.
                    awake = self._txn_manager.make_task_waiter()
                    self._message_accumulator._waiter_future = awake  # noqa: SLF001
                    await awake
        except asyncio.CancelledError:  # the producer stops, and waits for the end of this task
            waiter = self._txn_manager.wait_for_transaction_end()
            if waiter is not None and not waiter.done():
                waiter.set_exception(ProducerClosed())
                waiter.exception()  # it may have no waiter, and asyncio would report that
        except KafkaError:
            raise
        except Exception as error:
            _log.exception("the sender of a transactional producer has failed")
            raise KafkaError(repr(error)) from error

    async def _send_next(self) -> bool:
        """Whether there was anything to send."""
        manager = self._txn_manager
        partitions = manager.partitions_to_add()
        if await self._write_batches(partitions):
            pass
        elif partitions:
            await self._do_add_partitions_to_txn(partitions)
        elif (group_id := manager.consumer_group_to_add()) is not None:
            await self._do_add_offsets_to_txn(group_id)
        elif (offsets := manager.offsets_to_commit()) is not None:
            await self._do_txn_offset_commit(*offsets)
        elif (result := manager.needs_transaction_commit()) is not None:
            await self._do_txn_commit(result)
        else:
            return False
        return True

    async def _write_batches(self, apart: AbstractSet[Any]) -> bool:
        """Whether there were any, but for the partitions `apart`; to several brokers at once."""
        found, is_leader_unknown = self._message_accumulator.drain_by_nodes(
            ignore_nodes=(), muted_partitions=apart
        )
        writes = [SendProduceReqHandler(self, its).do(node) for node, its in found.items()]
        if len(writes) == 1:
            await writes[0]
        elif writes:
            await asyncio.gather(*writes)
        elif is_leader_unknown:
            await self.client.force_metadata_update()
        return bool(writes) or is_leader_unknown


class RenewsEpoch:
    """Begins no transaction in an epoch in which a request may still be on its way.

    A request whose answer was not seen is sent again, and the first may arrive later, even much
    later. Within its own transaction it changes nothing more; within the next one of the same
    epoch a late EndTxn ends that one half-way. A broker refuses requests of a former epoch.
    """

    unanswered = False  # whether a request of this epoch was given up without an answer

    async def begin_transaction(self) -> None:
        """Renews the epoch first where it must. Raises ProducerFenced, as `renew_epoch` does."""
        if self.unanswered:
            await self.renew_epoch()
            self.unanswered = False
        await super().begin_transaction()  # type: ignore[misc]  # of the class it is mixed into

    @abstractmethod
    async def renew_epoch(self) -> None:
        """Raises ProducerFenced if the transactional id has a new owner."""


class TransactionalProducer(RenewsEpoch, AIOKafkaProducer):  # type: ignore[misc]  # has no types
    """Its transactions are whole, also where requests arrive late or a topic may not be written.

    Where the coordinator refuses one partition, for want of a right, it adds none. aiokafka sends
    the records for the others all the same, and a broker that has not yet written the marker of the
    transaction before takes them for a part of that one: they are committed, and the rest is not.

    An epoch ends with the transaction in which its coordinator moved. A former coordinator may
    still have that transaction as open; asked in the same epoch, it takes the next one for it, and
    knows nothing of it once it has read its log: its records stay in a transaction without an end.
    """

    def __init__(self, *, retry_backoff_ms: int = 100, **options: Any) -> None:
        if options.get("linger_ms"):
            raise ValueError("linger_ms: a transaction is written at once")
        super().__init__(retry_backoff_ms=retry_backoff_ms, **options)
        share_start(self.client)
        self._retry_s = retry_backoff_ms / 1000
        self._sender = SequentialSender(
            self.client,
            acks=-1,
            txn_manager=self._txn_manager,
            message_accumulator=self._message_accumulator,
            retry_backoff_ms=retry_backoff_ms,
            request_timeout_ms=self._request_timeout_ms,
        )
        manager = self._txn_manager
        # A task for each transaction else, though a producer that has started has its id.
        manager.wait_for_pid = lambda: manager._pid_waiter  # noqa: SLF001
        self._drain = self._message_accumulator.drain_by_nodes
        self._message_accumulator.drain_by_nodes = self._drained
        self._ask = self.client.send
        self.client.send = self._asked

    async def stop(self) -> None:
        """Stops without sending what is left, which is of a transaction that is not committed.

        aiokafka would wait for brokers that do not answer.
        """
        self._fail_all(ProducerClosed())
        await super().stop()

    async def begin_transaction(self) -> None:
        """See RenewsEpoch."""
        self.unanswered |= self._sender.has_lost_coordinator
        self._sender.has_lost_coordinator = False
        await super().begin_transaction()

    async def send(self, *given: Any, **options: Any) -> Any:
        """See aiokafka. Once the transaction has failed, raises why."""
        with self._explained():
            return await super().send(*given, **options)

    async def send_batch(self, *given: Any, **options: Any) -> Any:
        """See aiokafka. Once the transaction has failed, raises why."""
        with self._explained():
            return await super().send_batch(*given, **options)

    async def missing(self, topics: Sequence[str]) -> str | None:
        """The first of these topics that is not there; None also where no broker answers.

        Raises TopicAuthorizationFailedError if one may not be seen.
        """
        if not await self.client.set_topics(topics):
            return None
        cluster = self.client.cluster
        if hidden := sorted(cluster.unauthorized_topics.intersection(topics)):
            raise TopicAuthorizationFailedError(*hidden)
        return next((it for it in topics if cluster.partitions_for_topic(it) is None), None)

    async def renew_epoch(self) -> None:
        """Nothing is being sent now: each request is answered, or was given up."""
        manager = self._txn_manager
        await self._until_answered(self._check_ownership, manager)
        given = await self._until_answered(self._next_epoch, manager)
        manager._pid_and_epoch = given  # noqa: SLF001 - aiokafka sets it once, at start
        manager._sequence_numbers.clear()  # noqa: SLF001 - each epoch counts from 0

    async def _until_answered(
        self, ask: Callable[[Any], Coroutine[Any, Any, T]], manager: Any
    ) -> T:
        while True:
            try:
                return await ask(manager)
            except _TRANSIENT:
                await asyncio.sleep(self._retry_s)

    async def _check_ownership(self, manager: Any) -> None:
        """Abort what a late request may have begun. Raises ProducerFenced.

        Asked for an epoch while a transaction is open, a broker aborts that first, also the
        transaction of a successor, and only then refuses. The end of a transaction it refuses at
        once.
        """
        ours = manager.transactional_id, manager.producer_id, manager.producer_epoch
        with suppress(InvalidTxnState):  # there is none, as nearly always
            await self._coordinator_answers(manager, EndTxnRequest(*ours, TransactionResult.ABORT))

    async def _next_epoch(self, manager: Any) -> PidAndEpoch:
        """Asked twice for the successor of one epoch, the broker gives the same again."""
        request = NextEpochRequest(
            manager.transactional_id,
            manager.transaction_timeout_ms,
            (manager.producer_id, manager.producer_epoch),
        )
        answer = await self._coordinator_answers(manager, request)
        return PidAndEpoch(answer.producer_id, answer.producer_epoch)

    async def _coordinator_answers(self, manager: Any, request: Any) -> Any:
        """Raises its error."""
        transactions = CoordinationType.TRANSACTION
        node = await self.client.coordinator_lookup(transactions, manager.transactional_id)
        answer = await self._ask(node, request, group=ConnectionGroup.COORDINATION)
        error = for_code(answer.error_code)
        if error is InvalidProducerEpoch:
            raise ProducerFenced
        if answer.error_code:
            raise error
        return answer

    async def _asked(self, node_id: Any, request: Any, **options: Any) -> Any:
        try:
            answer = await self._ask(node_id, request, **options)
        except KafkaError:
            self.unanswered |= isinstance(request, _OF_TRANSACTIONS)
            raise
        if (throttled_ms := getattr(answer, "throttle_time_ms", 0)) >= THROTTLED_MS_MIN:
            _log.warning(
                "Kafka takes nothing more of this producer for %.0f s: a quota of its user or its "
                "client id is used up (producer_byte_rate, request_percentage)",
                throttled_ms / 1000,
            )
        return answer

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except IllegalOperation as error:
            if (failure := self._failure()) is None:
                raise
            raise failure from error

    def _failure(self) -> BaseException | None:
        """Why the transaction has failed; None if it has not."""
        manager = self._txn_manager
        if manager is None or manager.state not in _FAILED:
            return None
        waiter = manager.wait_for_transaction_end()
        error = waiter.exception() if waiter is not None and waiter.done() else None
        return error or ConnectionError("the transaction failed")

    def _drained(self, *given: Any, **options: Any) -> Any:
        """What is to be sent now; of a transaction that has failed nothing, and its sends fail."""
        if (error := self._failure()) is not None:
            self._fail_all(error)
            return {}, False
        return self._drain(*given, **options)

    def _fail_all(self, error: BaseException) -> None:
        unsent = self._message_accumulator._batches  # noqa: SLF001 - else an abort sends them
        # One that is to be sent again is removed from there at its end; else that is a KeyError.
        self._message_accumulator._pending_batches.update(*unsent.values())  # noqa: SLF001
        self._message_accumulator.fail_all(error)
        for batch in chain.from_iterable(unsent.values()):
            batch._drain_waiter.exception()  # noqa: SLF001 - else asyncio reports that none took it
        unsent.clear()
