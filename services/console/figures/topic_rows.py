"""Rates and sizes of topics, from the records read and the broker's figures; pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from answerbus.topics import Topic
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
    """One line; `status` is None while the broker has not been asked, rates while not counted."""

    name: str
    course: tuple[Spark, ...]
    last_minute: int | None
    mean_bytes: float | None
    status: _Status | None

    @property
    def kept_bytes(self) -> float | None:
        """About how much is kept, before compression."""
        if self.mean_bytes is None or self.status is None:
            return None
        return self.mean_bytes * self.status.kept


def topic_rows(
    statuses: Mapping[Topic, _Status | None],
    counts_of: Callable[[Topic], TopicCounts | None],
    prefix: str,
    now_ms: int,
) -> list[TopicRow]:
    """In the order of the statuses."""
    return [
        _row(topic.full_name(prefix), topic, status, counts_of(topic), now_ms)
        for topic, status in statuses.items()
    ]


def _row(
    name: str, topic: Topic, status: _Status | None, counts: TopicCounts | None, now_ms: int
) -> TopicRow:
    if counts is None:
        return TopicRow(name, (), None, None, status)
    records = [minute.records for minute in counts.by_minute(topic, now_ms, COURSE_MINUTES)]
    course, last_whole = sparks(records, COURSE_MINUTES), records[-2]
    return TopicRow(name, course, last_whole, counts.mean_bytes(topic), status)
