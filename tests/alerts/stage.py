"""One broker, one worker at a fixed address, and the faults that alerts are about."""

import asyncio
import json
import os
import re
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.admin import RecordsToDelete
from aiokafka.structs import TopicPartition

from answerbus.client.bounded import close
from answerbus.topics import REQUESTS, RUN_TOPICS, tool_calls, toolset_cards
from infra.kafka import Broker
from infra.ports import LOOPBACK, free_ports
from tests.integration import fake_time
from tests.integration.bus import ANSWERED, Bus, Worker, create_topics, request, until
from tests.integration.command_line import Ended, answerbus
from tests.integration.kafka_admin import kafka_admin

PARTITIONS = 8
CLOCK_SHIFT = "+90s"
OPEN_LIMIT_S = 60.0
IDLE_LIMIT_S = 240.0


class Stage:
    """See the module."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.broker = broker
        self.bus = Bus(broker.bootstrap_servers, "alerts", PARTITIONS, folder)
        (self._port,) = free_ports(1)
        self._worker: Worker | None = None
        self._published = 0
        self.runs: list[str] = []  # the workflows of runs, in their order

    @property
    def address(self) -> str:
        """Where `/metrics` is, with each worker that runs."""
        return f"{LOOPBACK}:{self._port}"

    async def set_up(self) -> None:
        await create_topics(self.bus)

    async def add_run_topics(self) -> None:
        """Those that agents and budgets need; others of before stay as they are."""
        await create_topics(self.bus, topics=RUN_TOPICS)

    async def announce(self, card: Mapping[str, Any]) -> None:
        """The topics of runs and tools, and the card of a toolset that no server serves."""
        await self.add_run_topics()
        self.bus.partitions = 1
        cards = toolset_cards(card["toolset"])
        await create_topics(self.bus, topics=[tool_calls(card["toolset"]), cards])
        self.bus.partitions = PARTITIONS
        async with AIOKafkaProducer(bootstrap_servers=self.bus.bootstrap) as producer:
            key = card["toolset"].encode()
            await producer.send_and_wait(self.bus.topic(cards), json.dumps(card).encode(), key=key)

    def start(self, rules: list[dict[str, Any]], profiles: str = "", **worker: Any) -> None:
        """A worker with this script; there is none beside it."""
        self.stop()
        settings = {"health": self.address, "stuck_after_s": 5, "drain_s": 5, **worker}
        self._worker = self.bus.start_worker(self.bus.config(rules, profiles, settings))

    def start_well(self) -> None:
        """A worker to which everything is answered at once."""
        names = ("sick", "silent", "costly", "refusing", "broken", "slow")
        profiles = "".join(self.bus.scripted(name) for name in names)
        self.start([{"reply": ANSWERED}], profiles)

    async def opened(self) -> None:
        """Wait until the worker has all lanes, and they are open."""

        def is_open() -> bool:
            return self.page("/metrics").count('state="open"} 1') == PARTITIONS

        await until(is_open, "all lanes are open", OPEN_LIMIT_S)

    async def idle(self) -> None:
        """Wait until all that was published has ended: other faults leave thousands behind."""
        await self.opened()

        def is_idle() -> bool:
            counts = re.findall(
                r"^answerbus_lane_(?:lag|requests){.*} (.*)$", self.page("/metrics"), re.M
            )
            return bool(counts) and not any(map(float, counts))

        await until(is_idle, "nothing is left to do", IDLE_LIMIT_S)

    def page(self, path: str) -> str:
        """A page of the worker's health port; nothing while it has too much to do, or is away."""
        try:
            return self._worker.get(path).decode() if self._worker else ""
        except OSError:
            return ""

    def has_logged(self, text: str) -> bool:
        """Whether the log of any worker has it."""
        return any(text in worker.log_file.read_text() for worker in self.bus.workers)

    async def command(self, *words: str) -> Ended:
        """A command of a runbook, with the settings file of the worker."""
        config = str(self.bus.folder / "answerbus.toml")
        return await answerbus(
            self.bus.bootstrap,
            self.bus.prefix,
            *words,
            "--config",
            config,
            partitions=f"{PARTITIONS}",
        )

    async def reply_well_to(self, profile: str) -> bool:
        """Mend a profile in the settings file, with the worker at work."""
        script = self.bus.folder / "mended.json"
        if not script.exists():
            script.write_text(json.dumps({"rules": [{"reply": ANSWERED}]}))
        file = self.bus.folder / "answerbus.toml"
        found = file.read_text()
        before, table, after = found.partition(f"[profiles.{profile}]\n")
        own, bracket, rest = after.partition("[")
        own = own.replace("script.json", script.name)
        mended = f"{before}{table}{own}{bracket}{rest}"
        if mended != found:
            file.write_text(mended)
        return script.name in own

    def stop(self) -> None:
        """End the worker, without waiting for its calls."""
        if self._worker is not None:
            self._worker.kill()
            self._worker = None

    async def publish(self, count: int, **more: Any) -> None:
        """Requests, each of a workflow of its own."""
        numbers = range(self._published, self._published + count)
        self._published += count
        await self.bus.publish(request(f"r-{n}", f"w-{n}", **more) for n in numbers)
        if "agent" in more:
            self.runs += [f"w-{n}" for n in numbers]

    async def stand_still(self, seconds: float) -> None:
        """The worker's process gets no time."""
        assert self._worker is not None
        self._worker.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        self._worker.process.send_signal(signal.SIGCONT)

    @contextmanager
    def silent_broker(self) -> Iterator[None]:
        """Connections stay, and nothing answers."""
        os.kill(self.broker.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.broker.pid, signal.SIGCONT)

    async def fence(self) -> None:
        """Take each lane's producer away, as another worker would."""
        for partition in range(PARTITIONS):
            producer = AIOKafkaProducer(
                bootstrap_servers=self.bus.bootstrap,
                transactional_id=f"{self.bus.prefix}.lane.{partition}",
            )
            await producer.start()
            await close(producer.stop())

    async def delete_requests(self) -> None:
        """What retention does: nobody can read them any more."""
        async with kafka_admin(self.bus.bootstrap) as admin:
            topic = self.bus.topic(REQUESTS)
            await admin.delete_records(
                {TopicPartition(topic, n): RecordsToDelete(-1) for n in range(PARTITIONS)}
            )

    async def delete_topic(self) -> None:
        """Take the requests topic away."""
        async with kafka_admin(self.bus.bootstrap) as admin:
            await admin.delete_topics([self.bus.topic(REQUESTS)])

    @contextmanager
    def wrong_settings(self) -> Iterator[None]:
        """The file of the worker that runs is spoilt, and put back."""
        file = self.bus.folder / "answerbus.toml"
        right = file.read_text()
        file.write_text(right + "[worker\n")
        try:
            yield
        finally:
            file.write_text(right)

    @contextmanager
    def wrong_clock(self) -> Iterator[None]:
        """A worker whose clock is ahead."""
        library = fake_time.find_library()
        if library is None:
            raise RuntimeError("no libfaketime works here: pip install libfaketime")
        given: Mapping[str, str] = fake_time.variables(library, CLOCK_SHIFT)
        os.environ.update(given)  # noqa: TID251 - for a child
        try:
            self.start([{"reply": ANSWERED}])
            yield
        finally:
            for name in given:
                del os.environ[name]  # noqa: TID251
