"""Storms beside each other on one cluster, and a reader that notes when what becomes visible."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from aiokafka import TopicPartition

from answerbus.client.records.consumer import RecordConsumer
from answerbus.topics import LEDGER
from tests.integration.bus import Bus, create_topics
from tests.storms.astray import HELD_S, astray
from tests.storms.proxied import LISTENER, ProxiedCluster, Proxies, proxies
from tests.storms.proxy import PASS, Asked, Treatment
from tests.storms.storm import (
    DISTURBED,
    ELSEWHERE,
    Place,
    Storm,
    token_of,
    violations,
)

BROKERS = 3
PARTITIONS = 8  # as many storms rage at once
_POLL_MS = 200
_READ_S = 60.0


class Reader:
    """Of committed records; `found` has their places by token."""

    def __init__(self, bus: Bus) -> None:
        self.found: defaultdict[str, Counter[Place]] = defaultdict(Counter)
        self.storms: dict[str, Storm] = {}  # by seed
        self._topics = {bus.topic(topic): topic.name for topic in (LEDGER, *ELSEWHERE)}
        self._consumer = RecordConsumer(
            bootstrap_servers=bus.bootstrap,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        self._places = [
            TopicPartition(topic, number) for topic in self._topics for number in range(PARTITIONS)
        ]

    async def start(self) -> None:
        """Read from the beginning."""
        await self._consumer.start()
        self._consumer.assign(self._places)

    async def run(self) -> None:
        """For ever."""
        while True:
            await self._look()

    async def read_to_end(self) -> None:
        """What was committed by now. Raises TimeoutError."""
        async with asyncio.timeout(_READ_S):
            ends = await self._consumer.end_offsets(self._places)
            while any([await self._consumer.position(p) < ends[p] for p in self._places]):
                await self._look()

    async def stop(self) -> None:
        """It is read no more."""
        await self._consumer.stop()

    async def _look(self) -> None:
        for place, records in (await self._consumer.getmany(timeout_ms=_POLL_MS)).items():
            for record in records:
                token = token_of(record.value)
                self.found[token][self._topics[place.topic], place.partition] += 1
                storm = self.storms.get(token.partition(".")[0])
                if storm and token not in storm.journal.committing:
                    storm.journal.early.add(token)


class Stage:
    """Made by `staged`."""

    def __init__(self, bus: Bus, way_in: Proxies, reader: Reader) -> None:
        self.way_in = way_in
        self._bus, self._reader = bus, reader

    async def play(self, seeds: Sequence[int]) -> dict[int, list[str]]:
        """Storms at once, at most PARTITIONS; gives the violations of each."""
        storms = [
            Storm(seed, self._bus.prefix, self.way_in.servers, partition, PARTITIONS)
            for partition, seed in enumerate(seeds)
        ]
        rules = {storm.transactional_id: astray(storm.seed, DISTURBED) for storm in storms}

        def rule(asked: Asked) -> Treatment:
            found = rules.get(asked.transactional_id)
            return found(asked) if found else PASS

        self._reader.storms = {str(storm.seed): storm for storm in storms}
        self.way_in.set_rule(rule)
        reading = asyncio.create_task(self._reader.run())
        try:
            results = await asyncio.gather(*(s.run() for s in storms), return_exceptions=True)
            self.way_in.calm()
            await asyncio.sleep(max(HELD_S))  # what is still held arrives
        finally:
            reading.cancel()
            await asyncio.wait([reading])
        await self._bus.settled()
        await self._reader.read_to_end()
        return {
            storm.seed: [*_error(result), *violations(storm.journal, self._found(storm))]
            for storm, result in zip(storms, results, strict=True)
        }

    def _found(self, storm: Storm) -> dict[str, Counter[Place]]:
        begin = f"{storm.seed}."
        return {token: at for token, at in self._reader.found.items() if token.startswith(begin)}


def _error(result: BaseException | None) -> list[str]:
    return [f"did not end: {result!r}"] if result else []


@asynccontextmanager
async def staged(cluster: ProxiedCluster, prefix: str, folder: Path) -> AsyncIterator[Stage]:
    """Proxies before its brokers, and the topics of the product."""
    bus = Bus(cluster.bootstrap_servers, prefix, PARTITIONS, folder)
    await create_topics(bus, cluster.size)
    reader = Reader(bus)
    await reader.start()
    try:
        async with proxies(cluster, cluster.proxy_ports, LISTENER) as way_in:
            yield Stage(bus, way_in, reader)
    finally:
        await reader.stop()
