"""The requests that are being retried: profile, start and partition of each; pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from answerbus.request_key import RequestKey
from services.operators.records.event_summary import RetrySummary
from services.operators.records.stored import RetryEnded


@dataclass(frozen=True, slots=True)
class _Wait:
    profile: str
    failure: str
    partition: int
    since_ms: int


class Waiting:
    """As the retries topic lists them; `since_ms` is when a request was put there first."""

    def __init__(self) -> None:
        self._waits: dict[RequestKey, _Wait] = {}

    def take(self, event: RetrySummary, partition: int, at_ms: int) -> None:
        """A request is to be tried again."""
        key = RequestKey.of(event)
        before = self._waits.get(key)
        since_ms = before.since_ms if before else at_ms
        failure = event.failure.kind
        wait = _Wait(event.request.profile, failure, partition, since_ms)
        self._waits[key] = wait

    def end(self, event: RetryEnded, partition: int) -> None:
        """It is no longer tried; a version before had one request of an id in a partition."""
        if event.workflow_id is not None:
            self._waits.pop(RequestKey(event.workflow_id, event.request_id), None)
            return
        for key, wait in list(self._waits.items()):
            if key.request_id == event.request_id and wait.partition == partition:
                del self._waits[key]

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
