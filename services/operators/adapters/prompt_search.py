"""Looks for a text in the prompts that Kafka still has, the newest first, for a bounded time."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from aiokafka import TopicPartition

from answerbus.client.bus import Bus
from answerbus.client.records.consumer import RecordConsumer
from answerbus.client.turns import in_turns
from answerbus.request_key import RequestKey
from answerbus.topics import Topic
from services.operators.dead_letters.moment import as_text
from services.operators.records.prompt_text import PROMPT_TOPICS, PromptMatch, PromptText
from services.operators.records.stored import Stored

WINDOW_OFFSETS = 1_000  # of a partition, which are read forwards; windows follow backwards
_POLL_MS = 250
_BATCH_RECORDS = 200
_PARTITION_FETCH_BYTES = 256 * 1024  # a window is read in several fetches


@dataclass(slots=True)
class PromptSearch:
    """`back_to_ms`: all prompts since then were looked at, None: all that are kept.

    `looked_at` counts records.
    """

    matches: list[PromptMatch] = field(default_factory=list)
    looked_at: int = 0
    back_to_ms: int | None = None


def as_data(found: PromptSearch) -> Mapping[str, object]:
    return {
        "matches": [
            {
                "workflow_id": match.key.workflow_id,
                "request_id": match.key.request_id,
                "at": as_text(match.at_ms),
                "part": match.part,
                "excerpt": match.excerpt,
            }
            for match in found.matches
        ],
        "looked_at": found.looked_at,
        "back_to": None if found.back_to_ms is None else as_text(found.back_to_ms),
    }


async def search_prompts(bus: Bus, text: str, *, within_s: float, matches_max: int) -> PromptSearch:
    """Until enough is found, the time is over, or all is read. Raises BusUnavailable."""
    topics = await bus.places_of(*PROMPT_TOPICS)
    consumer = bus.consumer(max_partition_fetch_bytes=_PARTITION_FETCH_BYTES)
    async with bus.running(consumer):
        with bus.explained():
            consumer.assign(list(topics))
            consumer.pause(*topics)
            return await _Searching(consumer, topics, text, within_s, matches_max).run()


class _Searching:
    """One search, from the newest records to older ones."""

    def __init__(
        self,
        consumer: RecordConsumer,
        topics: Mapping[TopicPartition, Topic],
        text: str,
        within_s: float,
        matches_max: int,
    ) -> None:
        self._consumer, self._topics, self._text = consumer, topics, PromptText(text)
        self._until, self._matches_max = time.monotonic() + within_s, matches_max
        self._looked_at = 0
        self._matches: dict[RequestKey, PromptMatch] = {}
        self._reached_ms: dict[TopicPartition, int] = {}

    async def run(self) -> PromptSearch:
        starts = await self._consumer.beginning_offsets(list(self._topics))
        ends = await self._consumer.end_offsets(list(self._topics))
        now_ms = int(time.time() * 1000)
        tops = {at: end for at, end in ends.items() if end > starts[at]}
        while tops and not self._is_over():
            windows = {at: (max(starts[at], top - WINDOW_OFFSETS), top) for at, top in tops.items()}
            if await self._read(windows):
                tops = {at: first for at, (first, _) in windows.items() if first > starts[at]}
        reached = [self._reached_ms.get(at, now_ms) for at in tops]
        matches = sorted(self._matches.values(), key=lambda match: -match.at_ms)
        return PromptSearch(
            matches[: self._matches_max], self._looked_at, max(reached, default=None)
        )

    def _is_over(self) -> bool:
        return len(self._matches) >= self._matches_max or time.monotonic() >= self._until

    async def _read(self, windows: Mapping[TopicPartition, tuple[int, int]]) -> bool:
        """One window of each partition; False if the time was over before."""
        first_ms: dict[TopicPartition, int] = {}
        for at, (first, _) in windows.items():
            self._consumer.seek(at, first)
        self._consumer.resume(*windows)
        left = dict(windows)
        while left:
            if time.monotonic() >= self._until:
                return False
            batches = await self._consumer.getmany(
                *left, timeout_ms=_POLL_MS, max_records=_BATCH_RECORDS
            )
            for at, records in batches.items():
                stored = [Stored.of(self._topics[at], record) for record in records]
                await self._look([one for one in stored if one.offset < left[at][1]])
                if stored:
                    first_ms.setdefault(at, stored[0].at_ms)
            for at, (_, top) in list(left.items()):
                if await self._consumer.position(at) >= top:
                    self._consumer.pause(at)
                    del left[at]
        self._reached_ms |= first_ms
        return True

    async def _look(self, found: list[Stored]) -> None:
        async for stored in in_turns(found):
            self._looked_at += 1
            match = self._text.match(stored)
            if match is not None:
                self._matches.setdefault(match.key, match)
