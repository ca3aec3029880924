"""A chunk of closed ids: packed, with the times that decide when it is forgotten; its record."""

import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple, Self

from answerbus.broker_time import EPOCH, milliseconds
from answerbus.private.ledger import (
    CLOSED_IDS_KEY,
    CLOSED_KEY,
    ClosedIdsRecord,
    ClosedRecord,
)
from services.worker.core.budget.packed_ids import (
    PackedIds,
    body_mark,
    entry,
    id_digest,
    merged,
    owner_mark,
)

_MILLISECOND = timedelta(milliseconds=1)
_FAST = 1  # of zlib's levels


class SingleId(NamedTuple):
    """A single id of the ledger, and its key."""

    key: str
    body: bytes
    owner: bytes
    at_ms: int
    offset: int

    @classmethod
    def of(cls, record: ClosedRecord, at: datetime, name: str | None = None) -> tuple[bytes, Self]:
        """With the digest that it is known by; `at` is when it was closed."""
        name = name or record.name
        return id_digest(name), cls(
            f"{CLOSED_KEY}{name}",
            body_mark(record.body_digest),
            owner_mark(record.workflow_id),
            milliseconds(at),
            record.offset,
        )


@dataclass(slots=True)
class IdChunk:
    """`name` is that of its record, None until it is written; `covers` so many numbers.

    Of one that is not written, `keys` are those of the single records that it will take the place
    of, and `ended` are the ids whose record has been ended since it was read.
    """

    ids: PackedIds
    offset: int
    since_ms: int
    until_ms: int
    name: str | None = None
    covers: int = 1
    keys: bytes = b""
    ended: set[bytes] = field(default_factory=set)

    @classmethod
    def of(cls, singles: Mapping[bytes, SingleId]) -> Self:
        """As many as there are; some."""
        found = singles.values()
        return cls(
            PackedIds.of(entry(digest, it.body, it.owner) for digest, it in singles.items()),
            max(it.offset for it in found),
            min(it.at_ms for it in found),
            max(it.at_ms for it in found),
            keys=zlib.compress("\n".join(it.key for it in found).encode(), _FAST),
        )

    @classmethod
    def from_record(cls, record: ClosedIdsRecord, appended_at: datetime) -> Self:
        """As it was written. Its age counts from `appended_at`: its writer's clock may be wrong."""
        shift = (appended_at - record.at) // _MILLISECOND
        return cls(
            PackedIds.from_record(record),
            record.offset,
            milliseconds(record.since) + shift,
            milliseconds(record.until) + shift,
            record.chunk,
            record.covers,
        )

    @classmethod
    def merged(cls, chunks: Sequence[Self]) -> Self:
        """One of neighbours, under the name of the last."""
        return cls(
            merged(chunk.ids for chunk in chunks),
            max(chunk.offset for chunk in chunks),
            min(chunk.since_ms for chunk in chunks),
            max(chunk.until_ms for chunk in chunks),
            chunks[-1].name,
            sum(chunk.covers for chunk in chunks),
        )

    def record(self, name: str, now: datetime) -> ClosedIdsRecord:
        """Its record in the ledger from now on."""
        return ClosedIdsRecord(
            chunk=name,
            keys=self.ids.written_keys,
            rests=self.ids.rests,
            owners=self.ids.owners,
            offset=self.offset,
            since=_moment(self.since_ms),
            until=_moment(self.until_ms),
            at=now,
            covers=self.covers,
        )

    @property
    def number(self) -> int | None:
        """None for one that a move has brought, or that is not written."""
        return int(self.name) if self.name is not None and self.name.isdecimal() else None

    def bodies(self, digest: bytes) -> Iterable[bytes]:
        return () if digest in self.ended else self.ids.bodies(digest)

    def is_old(self, before_ms: int, committable: int) -> bool:
        """Whether all of it may be forgotten."""
        return self.until_ms < before_ms and self.offset < committable


def names_of(keys: bytes) -> list[str]:
    """The keys of single records, as a chunk keeps them."""
    return zlib.decompress(keys).decode().split("\n")


def key_of(name: str) -> str:
    """Under which the ledger has a chunk."""
    return f"{CLOSED_IDS_KEY}{name}"


def mergeable(
    chunks: Collection[IdChunk], count: int, ids_max: int, span_max: timedelta
) -> Iterator[list[IdChunk]]:
    """Groups of so many neighbours that are small together, and close in time."""
    group: list[IdChunk] = []
    for chunk in chunks:
        is_small = len(chunk.ids) <= ids_max // 2
        if group and not (is_small and _are_near(group, chunk, ids_max, span_max)):
            group = []
        if is_small and chunk.number is not None:
            group.append(chunk)
        if len(group) == count:
            yield group
            group = []


def _are_near(group: Sequence[IdChunk], chunk: IdChunk, ids_max: int, span_max: timedelta) -> bool:
    if chunk.number is None or chunk.number - chunk.covers != group[-1].number:
        return False
    size = sum(len(it.ids) for it in group) + len(chunk.ids)
    return size <= ids_max and chunk.until_ms - group[0].since_ms <= span_max // _MILLISECOND


def _moment(at_ms: int) -> datetime:
    return EPOCH + at_ms * _MILLISECOND
