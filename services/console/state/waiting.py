"""The requests that are being retried: profile, start and partition of each; pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from services.operators.records.event_summary import RetrySummary


@dataclass(frozen=True, slots=True)
class _Wait:
    profile: str
    failure: str
    partition: int
    since_ms: int


class Waiting:
    """As the retries topic lists them; `since_ms` is when a request was put there first."""

    def __init__(self) -> None:
        self._waits: dict[str, _Wait] = {}

    def take(self, event: RetrySummary, partition: int, at_ms: int) -> None:
        """A request is to be tried again."""
        before = self._waits.get(event.request_id)
        since_ms = before.since_ms if before else at_ms
        failure = event.failure.kind
        wait = _Wait(event.request.profile, failure, partition, since_ms)
        self._waits[event.request_id] = wait

    def end(self, request_id: str) -> None:
        """It is no longer tried."""
        self._waits.pop(request_id, None)

    def __len__(self) -> int:
        return len(self._waits)

    @property
    def by_profile(self) -> Counter[tuple[str, str]]:
        """How many, by profile and failure."""
        return Counter((wait.profile, wait.failure) for wait in self._waits.values())

    @property
    def oldest_ms(self) -> Mapping[int, int]:
        """Since when the one waits that has waited longest, by partition."""
        oldest: dict[int, int] = {}
        for wait in self._waits.values():
            known = oldest.get(wait.partition)
            if known is None or wait.since_ms < known:
                oldest[wait.partition] = wait.since_ms
        return oldest
