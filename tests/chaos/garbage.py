"""Batches of a hostile client among the requests: what is sent, and what must become of it."""

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.chaos.audit.history import History, Violation
from tests.fuzz.batches import RawBatch, batch_of

RECORDS_MAX = 4  # of a batch
_STRETCH = re.compile(r"stands at offsets (\d+) to (\d+)")

Place = tuple[int, int]  # partition, offset


@dataclass(frozen=True, slots=True)
class Garbage:
    """A batch to be produced `at_s` seconds into the run."""

    at_s: float
    partition: int
    batch: RawBatch


@dataclass(frozen=True, slots=True)
class Placed:
    """A batch that the broker has taken."""

    garbage: Garbage
    offset: int

    def places(self) -> Iterator[Place]:
        """Those of its records."""
        for number in range(self.garbage.batch.records):
            yield self.garbage.partition, self.offset + number


def garbage(seed: int, count: int, partitions: int, lasting_s: float) -> list[Garbage]:
    """All that is sent, in order of time. No value is a request, so that each ends as a letter."""
    chance = random.Random(f"garbage {seed}")
    found = []
    for number in range(count):
        values = [b"%d.%d" % (number, n) for n in range(chance.randint(1, RECORDS_MAX))]
        batch = batch_of(chance.randrange(2**32), values)
        at_s, partition = chance.uniform(0, lasting_s), chance.randrange(partitions)
        found.append(Garbage(at_s, partition, batch))
    return sorted(found, key=lambda one: one.at_s)


def check(history: History, placed: Sequence[Placed]) -> Iterator[Violation]:
    """Each record that was taken is told by one letter; by the broker's word and by no reader's."""
    reported = Counter(
        place for dead_letter in _dead_letters(history) for place in _places_of(dead_letter)
    )
    for one in placed:
        for partition, offset in one.places():
            times = reported[partition, offset]
            if times != 1:
                text = f"{times} letters tell of it; it is of a batch of {one.garbage.batch.kind!r}"
                yield Violation("G1", f"requests-{partition}-{offset}", text)


def _dead_letters(history: History) -> Iterator[dict[str, object]]:
    for dead_letters in history.place_dead_letters.values():
        yield from (dead_letter.body for dead_letter in dead_letters)


def _places_of(dead_letter: dict[str, object]) -> Iterator[Place]:
    origin, cause = dead_letter["origin"], dead_letter["cause"]
    assert isinstance(origin, dict)
    assert isinstance(cause, dict)
    first = last = origin["offset"]
    for problem in cause.get("problems", ()):
        if match := _STRETCH.search(problem["expected"]):
            last = int(match[2])
    for offset in range(first, last + 1):
        yield origin["partition"], offset
