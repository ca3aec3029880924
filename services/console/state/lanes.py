"""The lanes and what they have in flight, folded from the ledger; pure."""

from collections import Counter
from dataclasses import dataclass

from services.operators.records.summary import RecordSummary


@dataclass(frozen=True, slots=True)
class LaneSummary:
    """Who opened a lane last, when, and how often without progress."""

    partition: int
    worker: str
    openings_without_progress: int
    opened_ms: int


class Lanes:
    """Accounts with nothing in flight are forgotten, so that it stays small."""

    def __init__(self) -> None:
        self._lanes: dict[int, LaneSummary] = {}
        self._in_flight: dict[str, tuple[int, int]] = {}

    def take(self, seen: RecordSummary) -> None:
        """Take one record of the ledger."""
        partition = seen.place.partition
        if seen.kind == "lane":
            self._lanes[partition] = self._lane(seen)
        elif seen.kind == "account" and seen.account_id:
            if seen.in_flight:
                self._in_flight[seen.account_id] = (partition, seen.in_flight)
            else:
                self._in_flight.pop(seen.account_id, None)

    def _lane(self, seen: RecordSummary) -> LaneSummary:
        """A worker writes its lane's record again now and then; an opening is one that counts."""
        worker, before = seen.worker or "?", self._lanes.get(seen.place.partition)
        opened_ms = seen.at_ms
        if before and before.worker == worker and seen.openings <= before.openings_without_progress:
            opened_ms = before.opened_ms
        return LaneSummary(seen.place.partition, worker, seen.openings, opened_ms)

    @property
    def lanes(self) -> tuple[LaneSummary, ...]:
        """By partition."""
        return tuple(lane for _, lane in sorted(self._lanes.items()))

    @property
    def in_flight(self) -> Counter[int]:
        """Calls that were paid for and are not settled, by partition."""
        found: Counter[int] = Counter()
        for partition, count in self._in_flight.values():
            found[partition] += count
        return found
