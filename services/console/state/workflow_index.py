"""The positions of each workflow's records, in 16 bytes a record; pure."""

import hashlib
from array import array
from bisect import bisect_left

from answerbus.topics import APPROVALS, CONTROLS, STEPS, TOPICS
from services.operators.records.stored import RecordPosition

RUN_RECORDS = 16_384  # sorting so many takes some 10 ms, which is as long as a page may wait
_PARTITION_BITS, _OFFSET_BITS = 16, 44  # and 4 for the topic
_INDEXED = (*TOPICS, STEPS, APPROVALS, CONTROLS)


class WorkflowIndex:
    """Sorted runs and an unsorted rest, all of two numbers: a hash of the workflow and a place."""

    def __init__(self) -> None:
        self._runs: list[tuple[array[int], array[int]]] = []
        self._rest: list[tuple[int, int]] = []

    def add(self, key: str, place: RecordPosition) -> None:
        """Remember one record, under its workflow's id or one of the keys below."""
        self._rest.append((_hash(key), _packed(place)))
        if len(self._rest) == RUN_RECORDS:
            self._rest.sort()
            hashes, places = zip(*self._rest, strict=True)
            self._runs.append((array("Q", hashes), array("Q", places)))
            self._rest = []

    def find(self, key: str) -> list[RecordPosition]:
        """Where its records are, by topic and place; hashes may collide: look at what is there."""
        digest = _hash(key)
        found = [packed for hashed, packed in self._rest if hashed == digest]
        for hashes, places in self._runs:
            at = bisect_left(hashes, digest)
            while at < len(hashes) and hashes[at] == digest:
                found.append(places[at])
                at += 1
        return [_place(packed) for packed in sorted(found)]


def dead_letter_key(dead_letter_id: str) -> str:
    """Under which what operators did with a dead letter is kept that names no workflow."""
    return f"letter\0{dead_letter_id}"


def retry_key(request_id: str) -> str:
    """Under which the end of a request's retries is kept whose key lacks the workflow."""
    return f"retry\0{request_id}"


def _hash(key: str) -> int:
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "big")


def _packed(place: RecordPosition) -> int:
    topic = _INDEXED.index(place.topic)
    return ((topic << _PARTITION_BITS | place.partition) << _OFFSET_BITS) | place.offset


def _place(packed: int) -> RecordPosition:
    rest, offset = packed >> _OFFSET_BITS, packed & ((1 << _OFFSET_BITS) - 1)
    return RecordPosition(
        _INDEXED[rest >> _PARTITION_BITS], rest & ((1 << _PARTITION_BITS) - 1), offset
    )
