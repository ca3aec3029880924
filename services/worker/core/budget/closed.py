"""The memory of closed requests: bounded, and small for each of them."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import Self

from answerbus.broker_time import milliseconds
from answerbus.private.ledger import CLOSED_KEY, ClosedIdsRecord, ClosedRecord
from services.worker.core.budget.id_chunk import (
    IdChunk,
    SingleId,
    key_of,
    mergeable,
    names_of,
)
from services.worker.core.budget.packed_ids import body_mark, id_digest, key_of_digest

CLOSED_MEMORY = timedelta(hours=24)
CHUNK_IDS = 4_096  # in a record of 128 KiB; so many are singly in the ledger before that
CHUNK_EVERY = timedelta(hours=1)  # what is in one chunk is forgotten as a whole
CHUNKS_MIN = 24  # of the time that ids are remembered; where that is short, so are the chunks
MERGED_CHUNKS = 4  # become one of 512 KiB: each id that comes is looked up in all chunks

Written = tuple[str, ClosedIdsRecord | None]  # a key of the ledger, and what is there from now


@dataclass(frozen=True, slots=True)
class IdMemory:
    """How long closed ids are remembered, and how they are written down (decision 0034)."""

    remember: timedelta = CLOSED_MEMORY
    chunk_ids: int = CHUNK_IDS
    chunk_every: timedelta = CHUNK_EVERY

    @classmethod
    def lasting(cls, remember: timedelta) -> Self:
        """For a time; an id is remembered for a twenty-fourth of it longer, or for an hour."""
        return cls(remember, chunk_every=min(CHUNK_EVERY, remember / CHUNKS_MIN))


@dataclass(frozen=True, slots=True)
class ClosedId:
    """Marks of the bodies with which an id was closed."""

    bodies: frozenset[bytes]

    def has_body(self, body_digest: str) -> bool:
        """Whether this is a copy of what was closed."""
        return body_mark(body_digest) in self.bodies


@dataclass(slots=True)
class ClosedIds:
    """The closed ids of one lane, and of records that were no request the places; oldest first.

    New ones are single records of the ledger, until enough become a chunk. Of
    the ledger of a version that knew no chunks, they become chunks one after the other.
    """

    memory: IdMemory = field(default_factory=IdMemory)
    _singles: dict[bytes, SingleId] = field(default_factory=dict)
    _unwritten: deque[IdChunk] = field(default_factory=deque)
    _chunks: dict[str, IdChunk] = field(default_factory=dict)  # by name
    _ended: list[str] = field(default_factory=list)  # keys of records that are good for nothing
    _ended_keys: deque[bytes] = field(default_factory=deque)  # the same, packed
    _next: int = 0

    def __len__(self) -> int:
        return len(self._singles) + sum(len(chunk.ids) for chunk in self._packed())

    def get(self, name: str) -> ClosedId | None:
        """The entry of a name (see ClosedRecord)."""
        digest = id_digest(name)
        if single := self._singles.get(digest):
            return ClosedId(frozenset({single.body}))
        key = key_of_digest(digest)
        chunks = [chunk for chunk in self._packed() if chunk.ids.place_of(key) is not None]
        bodies = frozenset(body for chunk in chunks for body in chunk.bodies(digest))
        return ClosedId(bodies) if bodies else None

    def has_closed(self, name: str, since: datetime) -> bool:
        """Whether a name was closed since then, and not for an earlier request of the same id."""
        digest, since_ms = id_digest(name), milliseconds(since)
        if single := self._singles.get(digest):
            return single.at_ms >= since_ms
        return any(it.until_ms >= since_ms and any(it.bodies(digest)) for it in self._packed())

    def add(
        self, record: ClosedRecord, at: datetime | None = None, name: str | None = None
    ) -> None:
        """Remember; a later record of the same name takes the place of the one before.

        `at` is when it was written, where that is known better than by the record itself, and
        `name` is what its key names, where a version before has written it.
        """
        digest, single = SingleId.of(record, at or record.at, name)
        self._singles.pop(digest, None)
        self._singles[digest] = single
        if len(self._singles) > MERGED_CHUNKS * self.memory.chunk_ids:
            self._unwritten.append(self._packed_singles())

    def add_chunk(self, record: ClosedIdsRecord, appended_at: datetime | None = None) -> None:
        """Remember many, as the ledger has them."""
        chunk = IdChunk.from_record(record, appended_at or record.at)
        self._chunks[record.chunk] = self._without_owners(chunk)
        if record.chunk.isdecimal():
            self._next = max(self._next, int(record.chunk) + 1)

    def end(self, name: str) -> None:
        """A single record was ended: a chunk has it, or another partition."""
        digest = id_digest(name)
        self._singles.pop(digest, None)
        for chunk in self._unwritten:
            if any(chunk.bodies(digest)):
                chunk.ended.add(digest)
        if self._unwritten and len(self._unwritten[0].ended) == len(self._unwritten[0].ids):
            self._unwritten.popleft()

    def end_chunk(self, name: str) -> None:
        self._chunks.pop(name, None)

    def sort(self) -> None:
        """Put chunks in their order, once all are read: a move writes some of them again."""
        self._chunks = dict(sorted(self._chunks.items(), key=lambda it: _order(it[0])))

    def forget(self, now: datetime, committable: int) -> None:
        """Let go of what is older than is remembered.

        An id whose record is at or above `committable` may be delivered again, however long
        the lane was shut, and is kept until that has passed.
        """
        before_ms = milliseconds(now - self.memory.remember)
        while self._singles:
            digest, single = next(iter(self._singles.items()))
            if single.at_ms >= before_ms or single.offset >= committable:
                break
            self._ended.append(self._singles.pop(digest).key)
        while self._unwritten and self._unwritten[0].is_old(before_ms, committable):
            self._ended_keys.append(self._unwritten.popleft().keys)
        while self._chunks:
            name, chunk = next(iter(self._chunks.items()))
            if not chunk.is_old(before_ms, committable):
                return
            del self._chunks[name]
            self._ended.append(key_of(name))

    def pack(self, now: datetime) -> list[Written]:
        """What is to be written down now, in one transaction: of all that waits the next step."""
        ended, self._ended = self._ended, []
        if self._ended_keys:
            return self._nulls(ended + names_of(self._ended_keys.popleft()))
        written = self._nulls(ended)
        if self._unwritten:
            return written + self._written(self._unwritten.popleft(), now)
        if self._is_due(now):
            return written + self._written(self._packed_singles(), now)
        return written + self._merged(now)

    def _nulls(self, keys: Iterable[str]) -> list[Written]:
        """Ends of records, but for those of ids that were closed again since then."""
        names = ((key, id_digest(key.removeprefix(CLOSED_KEY))) for key in keys)
        return [(key, None) for key, digest in names if digest not in self._singles]

    def _is_due(self, now: datetime) -> bool:
        if len(self._singles) >= self.memory.chunk_ids:
            return True
        oldest = next(iter(self._singles.values()), None)
        return oldest is not None and oldest.at_ms < milliseconds(now - self.memory.chunk_every)

    def _packed_singles(self) -> IdChunk:
        taken = dict(islice(self._singles.items(), self.memory.chunk_ids))
        for digest in taken:
            del self._singles[digest]
        return IdChunk.of(taken)

    def _written(self, chunk: IdChunk, now: datetime) -> list[Written]:
        chunk.name, self._next = str(self._next), self._next + 1
        keys, chunk.keys, chunk.ended = names_of(chunk.keys), b"", set()
        self._chunks[chunk.name] = chunk
        return [
            (key_of(chunk.name), chunk.record(chunk.name, now)),
            *((key, None) for key in keys),
        ]

    def _merged(self, now: datetime) -> list[Written]:
        ids_max = MERGED_CHUNKS * self.memory.chunk_ids
        small = (self._chunks.values(), MERGED_CHUNKS, ids_max, self.memory.chunk_every)
        group = next(mergeable(*small), None)
        if group is None:
            return []
        names = [str(chunk.name) for chunk in group]
        one = IdChunk.merged(group)
        written: list[Written] = [(key_of(names[-1]), one.record(names[-1], now))]
        self._chunks[names[-1]] = self._without_owners(one)
        for name in names[:-1]:
            del self._chunks[name]
            written.append((key_of(name), None))
        return written

    def _without_owners(self, chunk: IdChunk) -> IdChunk:
        """Only chunks that are merged are written again."""
        if len(chunk.ids) > MERGED_CHUNKS * self.memory.chunk_ids // 2:
            chunk.ids.owners = b""
        return chunk

    def _packed(self) -> Iterator[IdChunk]:
        yield from self._unwritten
        yield from self._chunks.values()


def _order(name: str) -> tuple[bool, tuple[int, ...]]:
    """Those that a move has brought come first: they are older than all of the lane's own."""
    return name.isdecimal(), tuple(map(int, name.split("-")))
