"""The broker: logs, fenced transactions, the group's offsets, and a network that loses things."""

import asyncio
import json
import random
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from zlib import crc32

from aiokafka.errors import (
    ConcurrentTransactions,
    InvalidTimestampError,
    InvalidTxnState,
    KafkaConnectionError,
    KafkaError,
    OutOfOrderSequenceNumber,
    ProducerFenced,
    UnknownTopicOrPartitionError,
)

from answerbus.partition import partition_of
from tests.simulation import telling
from tests.simulation.boundary import Boundary
from tests.simulation.log import Fate, Headers, Log, Transaction
from tests.simulation.process import CURRENT, OUTSIDE, Process
from tests.simulation.timeline import Timeline
from tests.storms.proxy import PASS, Api, Asked, Kind, Rule
from tests.unit.worker.lane.virtual import VirtualClock

TRANSACTION_S_MAX = 15.0  # then the broker aborts it, and fences its producer
LATE_S_MAX = 20.0  # how long the end of a transaction itself may be on its way
SLOW_S_MIN, SLOW_S_MAX = 3.0, 11.0  # how late the answer to the end of one can be
TERMINAL_TOPICS = (".results.v1", ".refusals.v1", ".dead-letters.v1")
LISTING_TOPICS = (".retries.v1", ".runs.v1")
ATTEMPTS_TOPIC = ".attempts.v1"
HELD_ARRIVES = 0.5  # the chance of a request that was held, whenever its producer writes again
BROKERS = 3  # which lead partitions in turn: a transaction is sent in several requests
GIVEN_UP_IS_SENT = 0.5  # the chance of a request that was given up while nobody could be reached

if TYPE_CHECKING:
    from tests.simulation.consumer import SimConsumer
    from tests.simulation.producer import SimProducer

T = TypeVar("T")
Sent = tuple[str, int, bytes | None, bytes | None, Headers]
Answers = list[KafkaError | None]


class Fault(Enum):
    """What goes wrong with the end of one transaction."""

    REFUSED = auto()  # it does not happen, and the producer hears an error
    ANSWER_LOST = auto()  # it happens, and the producer hears an error
    SILENCE = auto()  # it does not happen, and nothing is heard
    SILENT_COMMIT = auto()  # it happens, and nothing is heard
    SLOW = auto()  # it happens, and that is heard only seconds later
    LATE_COMMIT = auto()  # nothing is heard; it happens later, unless somebody has fenced first


class Unanswered(KafkaConnectionError):  # type: ignore[misc]  # aiokafka has no types
    """The connection broke before the answer; the client asks again by itself."""


class _Silence(Exception):
    """There will be no answer."""


class _LateError(Exception):
    """The answer will come, but not soon."""


class Cluster:
    """What happens here happens outside of all processes."""

    def __init__(self, chance: random.Random, timeline: Timeline, boundary: Boundary) -> None:
        self.clock = VirtualClock()
        self.timeline = timeline
        self.boundary = boundary
        self.consumers: list[SimConsumer] = []
        self.is_away = False
        self.logs: dict[tuple[str, int], Log] = {}
        self.offsets: dict[int, int] = {}
        self.partitions: dict[str, int] = {}  # of topics that others than the deployment have made
        self.missing: set[str] = set()  # of those
        self.end_faults: deque[Fault | None] = deque()  # of the transactions to come, in order
        self.rule: Rule = lambda _: PASS  # for the requests of transactions
        self.refusals: deque[bool] = deque()  # whether one record is refused, of batches to come
        self.watchers: list[Callable[[str], None]] = []  # told the topic that has grown
        self.owners: dict[str, tuple[Process | None, int]] = {}  # by transactional id, with epoch
        self.running: list[SimProducer] = []  # producers that were started and not stopped
        self._open: dict[str, Transaction] = {}
        self._last: dict[str, Transaction] = {}  # that has ended, by transactional id
        self._renewed: dict[str, int] = {}  # the epoch before the one that was granted last
        self._taken: defaultdict[tuple[str, int], dict[int, Answers]] = defaultdict(dict)
        self._held: defaultdict[str, list[Callable[[], object]]] = defaultdict(list)
        self._broken: defaultdict[tuple[str, int], set[tuple[str, int]]] = defaultdict(set)
        self._waiting: list[tuple[Process | None, Callable[[], Any], asyncio.Future[Any]]] = []
        self._listening: asyncio.Future[Process | None] | None = None
        self._is_late = False  # what arrives now
        self._chance = chance
        self._connect_s_max = chance.choice((0.1, 0.1, 2.0, 8.0))

    def log(self, topic: str, partition: int) -> Log:
        """A partition, made when it is first asked for."""
        if (topic, partition) not in self.logs:
            self.logs[topic, partition] = Log(topic, partition)
        return self.logs[topic, partition]

    def partitions_of(self, topic: str) -> int:
        """Of a topic that others have made, and may take away."""
        if topic in self.missing:
            raise UnknownTopicOrPartitionError
        return self.partitions[topic]

    def place_of(self, topic: str, key: bytes | None) -> int:
        """Where a record goes whose sender leaves that to its key."""
        return partition_of((key or b"").decode(), self.partitions[topic])

    # The network

    async def ask(self, act: Callable[[], T]) -> T:
        """A request of the running process: it arrives later, and the answer later still."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self._later(self._serve, CURRENT.get(), act, answer)
        return await answer

    async def connect(self) -> None:
        """What a client does before its first request takes its time."""
        await asyncio.sleep(self._chance.uniform(0.01, self._connect_s_max))

    async def hear(self, most_s: float) -> Process | None:
        """The next process that is handed records or commits some, if that is soon."""
        self._listening = asyncio.get_running_loop().create_future()
        done, _ = await asyncio.wait([self._listening], timeout=most_s)
        return self._listening.result() if done else None

    def notice(self, process: Process | None) -> None:
        """Something is going on there."""
        if self._listening and not self._listening.done():
            self._listening.set_result(process)

    def reaches(self, process: Process | None) -> bool:
        """Whether the two can talk."""
        return not (self.is_away or (process is not None and process.is_cut_off))

    def reconnect(self) -> None:
        """Serve what could not be sent before."""
        waiting, self._waiting = self._waiting, []
        for process, act, answer in waiting:
            if process is not None and process.is_dead:
                continue
            if not answer.cancelled() or self._chance.random() < GIVEN_UP_IS_SENT:
                self._later(self._serve, process, act, answer)
        for topic in dict.fromkeys(topic for topic, _ in self.logs):
            self._grown(topic)

    def _serve(
        self, process: Process | None, act: Callable[[], T], answer: asyncio.Future[T]
    ) -> None:
        if not self.reaches(process):
            self._waiting.append((process, act, answer))
            return
        try:
            result = act()
        except _Silence:
            return
        except _LateError:
            slow_s = self._chance.uniform(SLOW_S_MIN, SLOW_S_MAX)
            late = partial(_answer, answer, None)
            asyncio.get_running_loop().call_later(slow_s, late, context=OUTSIDE)
        except KafkaError as error:
            self._later(_fail, answer, error)
        else:
            self._later(_answer, answer, result)

    def _later(self, what: Callable[..., None], *args: object) -> None:
        delay_s = self._chance.uniform(0.0003, 0.003)
        asyncio.get_running_loop().call_later(delay_s, what, *args, context=OUTSIDE)

    # Transactions

    def take(self, api: Api, id_: str, act: Callable[[], T]) -> T:
        """A request of the producer with this id. Raises Unanswered where the connection breaks."""
        kind = self.rule(Asked(api, id_)).kind
        if kind is not Kind.PASS:
            self.timeline.tell(f"its {api.name} goes astray: {kind.name}", who=_name(self, id_))
        if kind in {Kind.HOLD, Kind.AGAIN}:
            self._held[id_].append(act)
        if kind in {Kind.HOLD, Kind.DROP}:
            raise Unanswered
        if kind in {Kind.LOSE_ANSWER, Kind.AGAIN}:
            with suppress(KafkaError, _Silence, _LateError):  # none of it is heard
                act()
            raise Unanswered
        answer = act()
        if kind is Kind.TWICE:
            self._arrive(act)
        return answer

    def _arrive(self, act: Callable[[], object]) -> None:
        """Once more, or late: nobody hears the answer."""
        faults, self.end_faults = self.end_faults, deque()
        self._is_late = True
        with suppress(KafkaError):
            act()
        self.end_faults, self._is_late = faults, False

    def _let_held_arrive(self, id_: str) -> None:
        """Perhaps; a broker refuses what is of a former epoch."""
        held = self._held[id_]
        if held and self._chance.random() < HELD_ARRIVES:
            self.timeline.tell("a request that was held arrives", who=_name(self, id_))
            self._arrive(held.pop(0))

    def initialize(self, id_: str, producer: "SimProducer | None") -> int:
        """Shut out the owner before, decide what it left open; gives an epoch."""
        left = self._open.get(id_)
        if left:
            self._decide(left, Fate.COMMITTED if left.fate is Fate.PREPARED else Fate.ABORTED)
        epoch = self.owners[id_][1] + 1 if id_ in self.owners else 0
        process = producer.process if producer else None
        self.owners[id_] = process, epoch
        self._renewed.pop(id_, None)
        # One that is late was sent by an opening before, and says nothing of the one of now.
        if producer and process and not producer.has_fenced and not self._is_late:
            producer.has_fenced = True
            partition = int(id_.rpartition(".")[2])
            self.boundary.fenced(process, partition, self.offsets.get(partition, 0))
        return epoch

    def renew(self, id_: str, epoch: int) -> int:
        """The next epoch of a producer that has the last one; asked twice, the same again.

        Whose transaction is open is not asked: it is aborted first, and its producer shut out.
        """
        process, last = self.owners[id_]
        left = self._open.get(id_)
        if left:
            is_certain = left.fate is Fate.PREPARED
            if not is_certain:
                self.owners[id_] = process, last + 1
            self._decide(left, Fate.COMMITTED if is_certain else Fate.ABORTED)
            raise ConcurrentTransactions
        if self._renewed.get(id_) == epoch:
            return last
        if last != epoch:
            raise ProducerFenced
        self.owners[id_], self._renewed[id_] = (process, epoch + 1), epoch
        return epoch + 1

    def abort(self, id_: str, epoch: int) -> None:
        """What may be open, of the last epoch alone."""
        self._check(id_, epoch)
        left = self._open.get(id_)
        if left and left.fate is Fate.OPEN:
            self._decide(left, Fate.ABORTED)

    def add_partitions(self, id_: str, epoch: int, places: Collection[tuple[str, int]]) -> None:
        """They become a part of the transaction, which begins with the first."""
        self._begun(id_, epoch).partitions.update(places)

    def add_group(self, id_: str, epoch: int) -> None:
        """The same of the group and its offset."""
        self._begun(id_, epoch).has_group = True

    def produce(
        self, id_: str | None, epoch: int, batch: Sequence[Sent], number: int = 0
    ) -> Answers:
        """Append a batch; for each record the error with which it was refused, if it was.

        A batch of a transaction has a number, and what has come already is not appended again.
        """
        if id_ is None:
            return self._appended(None, ("", epoch), batch)
        taken, transaction = self._taken[id_, epoch], self._in_transaction(id_, epoch)
        if number not in taken:
            taken[number] = self._appended(transaction, (id_, epoch), batch)
        self._let_held_arrive(id_)
        return taken[number]

    def _appended(
        self, transaction: Transaction | None, producer: tuple[str, int], batch: Sequence[Sent]
    ) -> Answers:
        refused = self._chance.randrange(len(batch)) if self._is_refused() else None
        return [
            self._append(transaction, producer, sent, is_refused=number == refused)
            for number, sent in enumerate(batch)
        ]

    def leader(self, topic: str, partition: int) -> int:
        """The broker that takes the records of a partition."""
        return (crc32(topic.encode()) + partition) % BROKERS

    def set_offset(self, id_: str, epoch: int, partition: int, offset: int) -> None:
        """The group's offset is to move with the transaction; nobody asks who owns what."""
        transaction = self._in_transaction(id_, epoch)
        if not transaction.has_group:
            raise InvalidTxnState
        transaction.offset = partition, offset

    def end(self, id_: str, epoch: int) -> None:
        """Commit, unless something goes wrong. Asked again, what has ended is as it was."""
        self._check(id_, epoch)
        transaction = self._open.get(id_)
        if transaction is None:
            if id_ not in self._last or self._last[id_].fate is not Fate.COMMITTED:
                raise InvalidTxnState
            return
        self.notice(self.owners[id_][0])
        fault = self.end_faults.popleft() if self.end_faults else None
        if fault:
            self.timeline.tell(f"the end of its transaction: {fault.name}", who=_name(self, id_))
        if fault not in {Fault.REFUSED, Fault.SILENCE, Fault.LATE_COMMIT}:
            self._prepare(transaction)
        if fault is Fault.SLOW:
            raise _LateError
        if fault is Fault.LATE_COMMIT:
            late_s = self._chance.uniform(0, LATE_S_MAX)
            asyncio.get_running_loop().call_later(late_s, self._prepare, transaction)
        if fault in {Fault.REFUSED, Fault.ANSWER_LOST}:
            raise KafkaError("the connection broke")
        if fault is not None:
            raise _Silence

    def _check(self, id_: str, epoch: int) -> None:
        if self.owners[id_][1] != epoch:
            raise ProducerFenced

    def _begun(self, id_: str, epoch: int) -> Transaction:
        """The open transaction, or a new one."""
        self._check(id_, epoch)
        if id_ in self._open and self._open[id_].fate is Fate.PREPARED:
            self._decide(self._open[id_], Fate.COMMITTED)
        if id_ not in self._open:
            self._open[id_] = transaction = Transaction(id_, epoch)
            loop = asyncio.get_running_loop()
            loop.call_later(TRANSACTION_S_MAX, self._time_out, transaction, context=OUTSIDE)
        return self._open[id_]

    def _in_transaction(self, id_: str, epoch: int) -> Transaction:
        self._check(id_, epoch)
        transaction = self._open.get(id_)
        if transaction is None or transaction.fate is Fate.PREPARED:
            raise InvalidTxnState
        return transaction

    def _append(
        self,
        transaction: Transaction | None,
        producer: tuple[str, int],
        sent: Sent,
        *,
        is_refused: bool,
    ) -> KafkaError | None:
        topic, partition, key, value, headers = sent
        if topic in self.missing:
            return UnknownTopicOrPartitionError()
        if (topic, partition) in self._broken[producer]:
            return OutOfOrderSequenceNumber()  # after a refused record none can follow
        if is_refused:
            self._broken[producer].add((topic, partition))
            self.timeline.tell(
                f"a record for {topic} is refused", partition, _name(self, producer[0])
            )
            return InvalidTimestampError()
        log = self.log(topic, partition)
        if transaction and (topic, partition) not in transaction.partitions:
            return InvalidTxnState()
        entry = log.append(self.clock.now(), key, value, headers, transaction)
        if transaction is None:
            self._grown(topic)
        else:
            transaction.entries.append(entry)
            if log not in transaction.logs:
                transaction.logs.append(log)
        return None

    def _is_refused(self) -> bool:
        return bool(self.refusals) and self.refusals.popleft()

    def _prepare(self, transaction: Transaction) -> None:
        """The commit is certain; for a moment nobody sees it."""
        if transaction.fate is Fate.OPEN:
            transaction.fate = Fate.PREPARED
            self._note(transaction)
            self._later(self._decide, transaction, Fate.COMMITTED)

    def _time_out(self, transaction: Transaction) -> None:
        if transaction.fate is Fate.OPEN:
            self.initialize(transaction.id, None)

    def _decide(self, transaction: Transaction, fate: Fate) -> None:
        if not transaction.is_undecided:
            return
        transaction.fate = fate
        self._last[transaction.id] = self._open.pop(transaction.id)
        for log in transaction.logs:
            log.end += 1
        if fate is Fate.COMMITTED and transaction.offset:
            partition, offset = transaction.offset
            self.offsets[partition] = offset
        self.timeline.tell(
            partial(telling.transaction, transaction), who=_name(self, transaction.id)
        )
        for log in transaction.logs:
            self._grown(log.topic)

    def _note(self, transaction: Transaction) -> None:
        process, _ = self.owners[transaction.id]
        if process and transaction.entries:
            partition = int(transaction.id.rpartition(".")[2])
            self.boundary.committed(process, partition, has_offset=transaction.offset is not None)
        for entry in transaction.entries:
            if entry.topic.endswith(TERMINAL_TOPICS):
                about = {name: (content or b"").decode() for name, content in entry.headers}
                name = f"{about.get('ce_requestid', '')}@{about.get('ce_subject', '')}"
                self.boundary.ended(name)
            elif entry.topic.endswith(LISTING_TOPICS):
                self.boundary.listed((entry.key or b"").decode())
            elif entry.topic.endswith(ATTEMPTS_TOPIC):
                attempt = json.loads(entry.value or b"")
                if attempt["outcome"] == "unknown":  # a suspect, which is tried apart
                    self.boundary.listed(f"{attempt['request_id']}@{attempt['workflow_id']}")

    def _grown(self, topic: str) -> None:
        for watcher in self.watchers:
            watcher(topic)


def _name(cluster: Cluster, id_: str) -> str:
    owner = cluster.owners.get(id_)
    return owner[0].name if owner and owner[0] else "broker"


def _answer(answer: asyncio.Future[Any], result: Any) -> None:
    if not answer.done():
        answer.set_result(result)


def _fail(answer: asyncio.Future[Any], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
