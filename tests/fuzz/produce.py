"""Produces batches as they are, over a socket of our own: no client library would send them."""

import asyncio
import itertools
import struct
from dataclasses import dataclass
from types import TracebackType
from typing import Self

_PRODUCE, _VERSION = 0, 8  # the last version without tagged fields; it takes zstd
_ALL = -1
_TIMEOUT_MS = 10_000
_ANSWER_S = 15.0
_NOT_YET = (3, 5, 6)  # unknown topic or partition, no leader, not the leader


@dataclass(frozen=True)
class Taken:
    """What a broker said; it has taken the batch if `error` is 0."""

    error: int
    offset: int


class RawProducer:
    """One connection to the leader of the partitions."""

    def __init__(self, bootstrap: str) -> None:
        self._host, _, port = bootstrap.partition(",")[0].rpartition(":")
        self._port = int(port)
        self._numbers = itertools.count(1)
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        return self

    async def __aexit__(
        self,
        raised: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def produce(self, topic: str, partition: int, batch: bytes) -> Taken:
        """Send one batch and wait for what becomes of it; a new topic may have no leader yet."""
        async with asyncio.timeout(_ANSWER_S):
            while (taken := await self.offer(topic, partition, batch)).error in _NOT_YET:
                await asyncio.sleep(0.05)
        return taken

    async def offer(self, topic: str, partition: int, batch: bytes) -> Taken:
        """The same without patience."""
        number = next(self._numbers)
        body = struct.pack(">hhih", _PRODUCE, _VERSION, number, -1)  # no client id
        body += struct.pack(">hhi", -1, _ALL, _TIMEOUT_MS)  # no transactional id
        body += struct.pack(">ih", 1, len(topic)) + topic.encode()
        body += struct.pack(">iii", 1, partition, len(batch)) + batch
        self._writer.write(struct.pack(">i", len(body)) + body)
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        answer = await self._reader.readexactly(size)
        at = 4 + 4 + 2 + len(topic.encode()) + 4 + 4  # number, topics, name, partitions, index
        error, offset = struct.unpack_from(">hq", answer, at)
        return Taken(error, offset)
