"""Rates and sizes of topics, from the records read and the broker's figures; pure."""

from dataclasses import dataclass
from typing import Protocol

from answerbus.topics import TOPICS
from services.console.state.topic_counts import TopicCounts
from services.console.views.shares import Spark, sparks

COURSE_MINUTES = 60


class _Status(Protocol):
    @property
    def kept(self) -> int: ...
    @property
    def partitions(self) -> int: ...


@dataclass(frozen=True, slots=True)
class TopicRow:
    """One line; `status` is None while the broker has not been asked."""

    name: str
    course: tuple[Spark, ...]
    last_minute: int
    mean_bytes: float
    status: _Status | None

    @property
    def kept_bytes(self) -> float:
        """About how much is kept, before compression."""
        return self.mean_bytes * self.status.kept if self.status else 0.0


def topic_rows(
    counts: TopicCounts, statuses: dict[str, _Status], prefix: str, now_ms: int
) -> list[TopicRow]:
    """In the order of the table of topics."""
    found = []
    for topic in TOPICS:
        records = [one.records for one in counts.by_minute(topic, now_ms, COURSE_MINUTES)]
        found.append(
            TopicRow(
                topic.full_name(prefix),
                sparks(records, COURSE_MINUTES),
                records[-2],  # the last whole one
                counts.mean_bytes(topic),
                statuses.get(topic.name),
            )
        )
    return found
