"""One storm: a lane writes spends and ends of requests while its requests to Kafka go astray."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from answerbus.topics import ATTEMPTS, DEAD_LETTERS, LEDGER, RESULTS, RETRIES, Topic
from services.worker.adapters.clock import BrokerClock
from services.worker.adapters.kafka.shard import KafkaShard, Names
from services.worker.lane.outbox import Outbox
from services.worker.ports.kafka import OutRecord, ReadProgress
from services.worker.ports.lane import LaneLost

REQUESTS = 16
AT_ONCE = 4  # so that transactions carry several writes
DISTURBED = 0.2  # of the requests to brokers
REOPEN_S = 0.1
LIMIT_S = 240.0
ELSEWHERE = (RESULTS, ATTEMPTS, DEAD_LETTERS, RETRIES)  # with leaders on several brokers
SPEND, END = "spend", "end"

Place = tuple[str, int]


@dataclass(slots=True)
class Journal:
    """What the storm did, for its auditor; a token names one write."""

    places: dict[str, frozenset[Place]] = field(default_factory=dict)  # of all records of a token
    acknowledged: set[str] = field(default_factory=set)
    given_up: set[str] = field(default_factory=set)  # not there when the lane was opened again
    committing: set[str] = field(default_factory=set)  # their commit was asked for
    early: set[str] = field(default_factory=set)  # seen by a reader before that
    calls: Counter[str] = field(default_factory=Counter)  # by request
    openings: int = 0


class NotedShard(KafkaShard):
    """Notes which writes are about to be committed."""

    def __init__(self, names: Names, journal: Journal) -> None:
        super().__init__(names, BrokerClock())
        self._journal = journal

    async def fence(self) -> None:
        await super().fence()
        producer: Any = self._producer
        commit: Callable[[], Coroutine[Any, Any, None]] = producer.commit_transaction

        async def noted() -> None:
            self._journal.committing |= self._writing
            await commit()

        producer.commit_transaction = noted

    async def commit(self, records: Sequence[OutRecord], offset: int | None) -> None:
        self._writing = {token_of(record.value) for record in records}
        await super().commit(records, offset)


class Storm:
    """A lane of the product, its outbox and shard; the requests are as simple as can be."""

    def __init__(
        self, seed: int, prefix: str, servers: str, partition: int, partitions: int
    ) -> None:
        self.seed, self.journal = seed, Journal()
        self._names = Names(prefix, f"{prefix}.group", partition, {"bootstrap_servers": servers})
        self._chance = random.Random(f"records {seed}")
        self._partitions = partitions
        self._past: set[str] = set()
        self._outbox: Outbox | None = None
        self._opened = asyncio.Event()
        self._offset = 0

    @property
    def transactional_id(self) -> str:
        """Of the lane's producer."""
        return f"{self._names.prefix}.lane.{self._names.partition}"

    async def run(self) -> None:
        """Until each request has ended. Raises TimeoutError."""
        async with asyncio.timeout(LIMIT_S):
            await self._open()
            places = asyncio.Semaphore(AT_ONCE)
            async with asyncio.TaskGroup() as group:
                for number in range(REQUESTS):
                    group.create_task(self._request(f"{self.seed}.{number}", places))
            if self._outbox:
                await self._outbox.close()

    async def _request(self, name: str, places: asyncio.Semaphore) -> None:
        async with places:
            await self._write(f"{name}.{SPEND}")
            self.journal.calls[name] += 1
            await self._write(f"{name}.{END}")

    async def _write(self, token: str) -> None:
        """Until it is known to be committed."""
        tries = 0
        while True:
            tries += 1
            written = f"{token}.{tries}"
            records = self._records(written)
            self.journal.places[written] = frozenset(
                (record.topic.name, record.partition or 0) for record in records
            )
            await self._opened.wait()
            assert self._outbox
            self._offset += 1
            try:
                await self._outbox.put(records, self._offset)
            except LaneLost:
                await self._reopened()
                if written in self._past:
                    return
                self.journal.given_up.add(written)
            else:
                self.journal.acknowledged.add(written)
                return

    def _records(self, token: str) -> list[OutRecord]:
        """One for the ledger, which tells afterwards what was committed, and some elsewhere."""
        own = self._names.partition
        places: list[tuple[Topic, int]] = [(LEDGER, own)]
        places += [
            (topic, self._chance.randrange(self._partitions))
            for topic in self._chance.sample(ELSEWHERE, self._chance.randint(1, 3))
        ]
        value = token.encode()
        return [OutRecord(topic, place, value, value, []) for topic, place in places]

    async def _reopened(self) -> None:
        """All writers of a lost outbox come here; it is opened by a task of its own."""
        await asyncio.sleep(0)  # what was lost is told to all writers before
        await self._opened.wait()

    def _lost(self, _error: BaseException) -> None:
        self._opened.clear()
        self._reopening = asyncio.create_task(self._open())

    async def _open(self) -> None:
        if self._outbox:
            await self._outbox.close()
        while (shard := await self._fenced()) is None:
            await asyncio.sleep(REOPEN_S)
        self._outbox = Outbox(shard, self._lost)
        self._opened.set()

    async def _fenced(self) -> NotedShard | None:
        """A new producer, and what was committed before it; None where that failed."""
        shard, past = NotedShard(self._names, self.journal), set[str]()
        self.journal.openings += 1
        try:
            await shard.fence()
            await shard.read_private(lambda it: past.add(token_of(it.value)), ReadProgress())
            await shard.stop_reading()
        except Exception:  # as a lane does: whatever it was, it is tried again
            await shard.close()
            return None
        self._past = past
        return shard


def token_of(value: bytes | None) -> str:
    """Each record is its token."""
    return (value or b"").decode()


def violations(journal: Journal, found: Mapping[str, Counter[Place]]) -> list[str]:
    """`found` is what a reader of committed records sees at last, by token."""
    complaints = [f"{token}: visible before its commit" for token in sorted(journal.early)]
    for token, places in journal.places.items():
        seen = found.get(token, Counter())
        if seen and seen != Counter(places):
            complaints.append(f"{token}: {dict(seen)} visible, of {sorted(places)}")
        if not seen and token in journal.acknowledged:
            complaints.append(f"{token}: acknowledged and not visible")
        if seen and token in journal.given_up:
            complaints.append(f"{token}: was not there, and is visible by now")
    complaints += [f"{token}: was never written" for token in found if token not in journal.places]
    visible = Counter(token.rpartition(".")[0] for token in found)
    for name in {token.rsplit(".", 2)[0] for token in journal.places}:
        if (ends := visible[f"{name}.{END}"]) != 1:
            complaints.append(f"{name}: {ends} ends")
        if journal.calls[name] > visible[f"{name}.{SPEND}"]:
            complaints.append(f"{name}: {journal.calls[name]} calls, fewer spends")
    return complaints
