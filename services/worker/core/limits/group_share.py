"""One worker's share of a limit that holds for all workers of the group together.

A worker has as much of it as it has of the lanes. All workers know both numbers, so that the
parts add up to the whole without a word between them.
"""

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupShare:
    """`lanes` are the numbers of one worker's, of so many `partitions` that the lanes are for."""

    lanes: frozenset[int]
    partitions: int

    @classmethod
    def of(cls, assigned: Collection[int], partitions: int) -> "GroupShare":
        """Of the partitions that were assigned; those beyond the lanes' are only forwarded."""
        return cls(frozenset(n for n in assigned if n < partitions), partitions)

    @property
    def is_empty(self) -> bool:
        """Whether the worker has no lane, and so begins no call."""
        return not self.lanes

    def rate_part(self, per_minute: float) -> float:
        """Its part of what a minute allows: exact, and less than one where need be."""
        return per_minute * len(self.lanes) / self.partitions

    def slots_part(self, most: int) -> int:
        """Its part of calls at once: those of its lanes, and at least one, so that it goes on.

        Each lane has a fixed number of them, and these add up to `most`. Where there are fewer
        slots than lanes, some lanes have none: a worker with such lanes alone makes one call at a
        time all the same.
        """
        own = sum(_slots_of_lane(number, most, self.partitions) for number in self.lanes)
        return max(own, 1)


def _slots_of_lane(number: int, most: int, partitions: int) -> int:
    """Spread evenly, so that neighbours differ by one at most."""
    return (number + 1) * most // partitions - number * most // partitions
