"""What a run of chaos with agents has beside the rest: tool servers, people, and strangers."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from answerbus.topics import RUN_TOPICS, tool_calls, toolset_cards
from tests.chaos.fleet import Fleet
from tests.chaos.people import People
from tests.chaos.script import TOOLSET
from tests.chaos.strangers import OWN_TOOLSET, Strangers
from tests.chaos.toolset import JOURNAL_VARIABLE
from tests.integration.bus import Bus, create_topics

DEEDS = "deeds.jsonl"
SERVE = ("-m", "services.cli", "tools", "serve", "tests.chaos.toolset:deeds")
CARD_LIMIT_S = 120.0


class Agents:
    """The tool servers are a fleet like that of the workers; people come once it has begun."""

    def __init__(
        self, config: Path, folder: Path, servers: int, variables: Mapping[str, str]
    ) -> None:
        self.deeds = folder / DEEDS
        self.deeds.touch()
        own = {JOURNAL_VARIABLE: str(self.deeds), **variables}
        self.fleet = Fleet(
            config, folder, lambda _: own, name="server", command=SERVE, ready=b"serving"
        )
        self._servers = servers
        self.people: People | None = None
        self.strangers: Strangers | None = None

    def begin(self, bus: Bus, replicas: int) -> None:
        """Topics, servers, their card; then workers may start."""
        asyncio.run(create_topics(bus, replicas, RUN_TOPICS))
        of_tools = tool_calls(TOOLSET), toolset_cards(TOOLSET), toolset_cards(OWN_TOOLSET)
        for topic in of_tools:
            of_its_own = replace(bus, partitions=topic.partitions or bus.partitions)
            asyncio.run(create_topics(of_its_own, replicas, [topic]))
        for slot in range(self._servers):
            self.fleet.start(slot)
        _wait_for_card(bus.bootstrap, bus.topic(toolset_cards(TOOLSET)))
        self.people = People(bus.bootstrap, bus.prefix, bus.partitions)
        self.strangers = Strangers(bus.bootstrap, bus.prefix, bus.partitions)

    def look(self, now_s: float) -> None:
        """Let people answer what they are asked, and strangers speak before they do."""
        if self.strangers:
            self.strangers.look(now_s)
        if self.people:
            self.people.look()

    def close(self) -> None:
        """Leave; the servers are ended where they were started."""
        for one in (self.people, self.strangers):
            if one:
                one.close()


def _wait_for_card(bootstrap: str, topic: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "cards-without-a-group"})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    try:
        _until(lambda: _is_card(consumer), "the tool servers have announced their card")
    finally:
        consumer.close()


def _is_card(consumer: Consumer) -> bool:
    message = consumer.poll(0.2)
    value = message.value() if message is not None and message.error() is None else None
    return value is not None and json.loads(value)["toolset"] == TOOLSET


def _until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + CARD_LIMIT_S
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"in {CARD_LIMIT_S:.0f} s not: {what}")
