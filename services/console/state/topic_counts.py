"""Records and bytes of each topic, by the minute; pure."""

from collections import defaultdict
from dataclasses import dataclass

from answerbus.topics import Topic
from services.console.views.units import KEPT_MINUTES, MINUTE_MS
from services.operators.records.stored import Stored


@dataclass(slots=True)
class TopicCount:
    """Records, and the bytes of their keys and values, before compression."""

    records: int = 0
    bytes: int = 0


class TopicCounts:
    """By Kafka's time of the records; `total` is of all that was read."""

    def __init__(self) -> None:
        self.total: defaultdict[str, TopicCount] = defaultdict(TopicCount)
        self._minutes: defaultdict[str, dict[int, TopicCount]] = defaultdict(dict)

    def take(self, stored: Stored) -> None:
        size = len(stored.value or b"") + len(stored.key or b"")
        name, minute = stored.topic.name, stored.at_ms // MINUTE_MS
        minutes = self._minutes[name]
        found = minutes.get(minute)
        if found is None:
            found = minutes[minute] = TopicCount()
            if len(minutes) > KEPT_MINUTES:
                del minutes[min(minutes)]
        for counts in (found, self.total[name]):
            counts.records += 1
            counts.bytes += size

    def by_minute(self, topic: Topic, end_ms: int, minutes: int) -> tuple[TopicCount, ...]:
        """The `minutes` up to now."""
        found, last = self._minutes[topic.name], end_ms // MINUTE_MS
        return tuple(found.get(n, TopicCount()) for n in range(last - minutes + 1, last + 1))

    def mean_bytes(self, topic: Topic) -> float | None:
        """Of a record; None while none was read."""
        total = self.total[topic.name]
        return total.bytes / total.records if total.records else None
