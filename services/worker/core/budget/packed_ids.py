"""Digests of many closed ids, packed and sorted: twenty bytes in memory for each."""

import hashlib
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from answerbus.partition import workflow_hash
from answerbus.private.ledger import KEY_BYTES, OWNER_BYTES, REST_BYTES, ClosedIdsRecord

ID_BYTES = 12  # of the SHA-256 of an id: by chance none of a billion is taken for another
BODY_BYTES = 8  # of the digest of its body, which distinguishes a copy from a conflict
OF_NO_WORKFLOW = b"\xff" * OWNER_BYTES
_FIRSTS = 256  # values of a first byte
_AFTER_FIRST = 8 * (KEY_BYTES - 1)  # bits of a key after its first byte
_PREFIX = "sha256:"
_IS_LITTLE = sys.byteorder == "little"


class Entry(NamedTuple):
    """One closed id; `owner` is the hash of its workflow, by which partitions are found."""

    key: int
    rest: bytes
    owner: bytes

    @property
    def body(self) -> bytes:
        return self.rest[-BODY_BYTES:]


def id_digest(name: str) -> bytes:
    """The mark of a name of a ClosedRecord."""
    return hashlib.sha256(name.encode()).digest()[:ID_BYTES]


def key_of_digest(digest: bytes) -> int:
    """The part of the mark of a name by which entries are sorted."""
    return int.from_bytes(digest[:KEY_BYTES])


def body_mark(body_digest: str) -> bytes:
    at = len(_PREFIX)
    return bytes.fromhex(body_digest[at : at + 2 * BODY_BYTES])


def owner_mark(workflow_id: str | None) -> bytes:
    """The hash by which the partition of a workflow is found, for any number of partitions."""
    if workflow_id is None:
        return OF_NO_WORKFLOW
    return workflow_hash(workflow_id).to_bytes(OWNER_BYTES)


def entry(digest: bytes, body: bytes, owner: bytes) -> Entry:
    return Entry(key_of_digest(digest), digest[KEY_BYTES:] + body, owner)


@dataclass(slots=True)
class PackedIds:
    """Three columns, sorted by `keys`; without `owners` once these have been written down.

    A lane looks each id up in all its chunks, and finds it in few. `_starts` are the places
    where the keys of each first byte begin, and where the last ones end.
    """

    keys: "array[int]"
    rests: bytes
    owners: bytes = b""
    _starts: "array[int]" = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        starts = [bisect_left(self.keys, first << _AFTER_FIRST) for first in range(_FIRSTS)]
        self._starts = array("I", [*starts, len(self.keys)])

    def __len__(self) -> int:
        return len(self.keys)

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Self:
        ordered = sorted(entries)
        return cls(
            array("Q", [one.key for one in ordered]),
            b"".join([one.rest for one in ordered]),
            b"".join([one.owner for one in ordered]),
        )

    @classmethod
    def from_record(cls, record: ClosedIdsRecord) -> Self:
        return cls(record.sorted_keys[:], record.rests, record.owners)  # a copy has no spare room

    @property
    def written_keys(self) -> bytes:
        """The first column, as it is written."""
        return _swapped(self.keys).tobytes()

    def __iter__(self) -> Iterator[Entry]:
        """All entries, for as long as there are owners."""
        for at, key in enumerate(self.keys):
            owner = self.owners[at * OWNER_BYTES : (at + 1) * OWNER_BYTES]
            yield Entry(key, self._rest(at), owner)

    def place_of(self, key: int) -> int | None:
        """Where a key is, or the first of equal ones."""
        first = key >> _AFTER_FIRST
        at = bisect_left(self.keys, key, self._starts[first], self._starts[first + 1])
        return at if at < len(self.keys) and self.keys[at] == key else None

    def bodies(self, digest: bytes) -> Iterator[bytes]:
        """The marks of the bodies with which an id was closed; none for an id that is not here."""
        key, rest = key_of_digest(digest), digest[KEY_BYTES:]
        at = self.place_of(key)
        while at is not None and at < len(self.keys) and self.keys[at] == key:
            found = self._rest(at)
            if found.startswith(rest):
                yield found[-BODY_BYTES:]
            at += 1

    def _rest(self, at: int) -> bytes:
        return self.rests[at * REST_BYTES : (at + 1) * REST_BYTES]


def merged(parts: Iterable[PackedIds]) -> PackedIds:
    """All of them as one; to sort what is sorted in parts takes little."""
    return PackedIds.of(one for part in parts for one in part)


def _swapped(keys: "array[int]") -> "array[int]":
    if not _IS_LITTLE:
        return keys
    copy = keys[:]
    copy.byteswap()
    return copy
