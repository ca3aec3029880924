"""A test's own topics on a real broker, with worker processes to start, kill and stop."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from answerbus.client.bounded import close
from answerbus.partition import partition_of
from answerbus.topics import DEAD_LETTERS, REFUSALS, REQUESTS, RESULTS, TOPICS, Topic
from tests.integration.forked import Forked, fork, is_forkable
from tests.integration.history import variables_of
from tests.integration.kafka_admin import kafka_admin

START_S = 90.0  # a worker's start on a busy machine
TRANSACTIONS_S = 30.0  # until a broker gives up those that a killed worker left open
DRAIN_S = 30.0  # how long a worker that leaves waits for its calls: none of them takes so long
TERMINAL_KINDS = {"result", "unvalidated_result", "refusal", "dead_letter"}
ROOT = Path(__file__).parents[2]


@dataclass
class Worker:
    """One `answerbus worker` process."""

    process: "subprocess.Popen[bytes] | Forked"
    log_file: Path

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()
        self.process.wait()

    @property
    def health(self) -> dict[str, Any]:
        """What it says of itself at `/ready`."""
        body: dict[str, Any] = json.loads(self.get("/ready"))
        return body

    def get(self, path: str, limit_s: float = 5.0) -> bytes:
        """What its health port answers, with each status."""
        return fetch(self.addresses[0] + path, limit_s)

    @property
    def addresses(self) -> list[str]:
        """The health ports of its processes."""
        texts = [line["message"] for line in self.log() if "health at" in line["message"]]
        return [message.rpartition("health at ")[2] for message in texts]

    def terminate(self, limit_s: float = DRAIN_S + 15) -> int:
        """Ask it to drain; give its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(limit_s)

    def log(self) -> list[dict[str, Any]]:
        """What it logged; a line that is being written is left out."""
        *lines, _ = self.log_file.read_text().split("\n")
        return [json.loads(line) for line in lines if line.startswith("{")]


def fetch(url: str, limit_s: float = 5.0) -> bytes:
    """What is answered, with each status."""
    try:
        with urlopen(url, timeout=limit_s) as response:
            return bytes(response.read())
    except HTTPError as error:
        with error:
            return error.read()


@dataclass
class Bus:
    """See the module."""

    bootstrap: str
    prefix: str
    partitions: int
    folder: Path
    workers: list[Worker] = field(default_factory=list)
    kafka: Mapping[str, Any] = field(default_factory=dict)  # more settings of workers

    def topic(self, topic: Topic) -> str:
        return topic.full_name(self.prefix)

    def config(
        self, rules: list[dict[str, Any]], profiles: str = "", worker: Mapping[str, Any] = {}
    ) -> Path:
        """A settings file with a scripted default profile that plays `rules`."""
        (self.folder / "script.json").write_text(json.dumps({"rules": rules}))
        return self.settings(self.scripted("default") + profiles, worker)

    def scripted(self, profile: str, **more: Any) -> str:
        """A profile that plays the rules of `config`, for its settings file."""
        script = str(self.folder / "script.json")
        journal = str(self.journal)
        table = {"provider": "scripted", "script": script, "journal": journal, **more}
        return f"[profiles.{profile}]\n{_toml(table)}"

    def settings(self, profiles: str, worker: Mapping[str, Any] = {}) -> Path:
        """A settings file with these profiles."""
        kafka = {
            "bootstrap_servers": self.bootstrap,
            "topic_prefix": self.prefix,
            "session_timeout_ms": 6000,  # the least that brokers accept by default
            **self.kafka,
        }
        worker = {"health": "127.0.0.1:0", "retry_first_s": 0.05, "drain_s": DRAIN_S, **worker}
        path = self.folder / "answerbus.toml"
        path.write_text(f"[kafka]\n{_toml(kafka)}[worker]\n{_toml(worker)}{profiles}")
        return path

    @property
    def journal(self) -> Path:
        """Where the scripted provider notes its calls."""
        return self.folder / "calls.jsonl"

    def calls(self) -> list[dict[str, Any]]:
        """The calls that the provider itself saw begin."""
        return self._journalled("start")

    def ended_calls(self) -> list[dict[str, Any]]:
        """The calls that the provider itself saw end; of a killed worker's it sees none."""
        return self._journalled("end")

    def _journalled(self, event: str) -> list[dict[str, Any]]:
        lines = self.journal.read_text().splitlines() if self.journal.exists() else []
        return [entry for entry in map(json.loads, lines) if entry["event"] == event]

    def start_worker(self, config: Path, *options: str, tree: Path | None = None) -> Worker:
        """Start a worker and wait until it says that it is ready to be assigned partitions.

        `tree` is a checkout of another version, which it is then of.
        """
        log_file = self.folder / f"worker-{len(self.workers)}.log"
        inherited = os.environ.items()  # noqa: TID251 - all but settings
        environment = {name: v for name, v in inherited if not name.startswith("ANSWERBUS_")}
        if tree:
            environment |= variables_of(tree)
        arguments = ["worker", "--config", str(config), *options]
        with log_file.open("wb") as log:
            worker = Worker(started(arguments, environment, log.fileno(), ROOT), log_file)
        process = worker.process
        self.workers.append(worker)
        deadline = time.monotonic() + START_S
        while b"health at" not in log_file.read_bytes():
            assert process.poll() is None, log_file.read_text()
            assert time.monotonic() < deadline, "the worker did not start in time"
            time.sleep(0.05)
        return worker

    def stop_workers(self) -> None:
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.kill()

    async def publish(self, requests: Iterable[Mapping[str, Any]]) -> None:
        """Publish request bodies, each into the partition of its workflow."""
        async with AIOKafkaProducer(bootstrap_servers=self.bootstrap, acks="all") as producer:
            for body in requests:
                await producer.send(
                    self.topic(REQUESTS),
                    json.dumps(body).encode(),
                    partition=partition_of(str(body["workflow_id"]), self.partitions),
                )
            await producer.flush()

    async def terminals(self, count: int, limit_s: float = 60.0) -> list[dict[str, Any]]:
        """All terminal events once there are at least `count`, as a read_committed reader sees."""
        found: list[dict[str, Any]] = []
        topics = [self.topic(topic) for topic in (RESULTS, REFUSALS, DEAD_LETTERS)]
        deadline = time.monotonic() + limit_s
        async with self.reader(topics) as consumer:
            while len(found) < count and time.monotonic() < deadline:
                events = _events(await _poll(consumer))
                found += [event for event in events if event["kind"] in TERMINAL_KINDS]
        return found

    async def everything(self, topic: Topic) -> list[dict[str, Any]]:
        """All events of a topic up to its end now; null values are left out."""
        return _events(await self.records(topic))

    async def records(self, topic: Topic) -> list[ConsumerRecord]:
        """All records of a topic up to its end now, in order within each partition."""
        name = self.topic(topic)
        found: list[ConsumerRecord] = []
        async with self.reader([name]) as consumer:
            async with asyncio.timeout(START_S):  # until the broker has said how many there are
                while not (numbers := consumer.partitions_for_topic(name)):
                    await asyncio.sleep(0.01)
            places = [TopicPartition(name, number) for number in numbers]
            ends = await consumer.end_offsets(places)
            while any([await consumer.position(place) < ends[place] for place in places]):
                found += await _poll(consumer)
        return found

    async def settled(self) -> None:
        """Wait until the end of every transaction is visible, which takes a moment longer."""
        names = [self.topic(topic) for topic in TOPICS]
        places = [TopicPartition(name, p) for name in names for p in range(self.partitions)]
        async with (
            asyncio.timeout(TRANSACTIONS_S),
            self.reader(names) as committed,
            self.reader(names, "read_uncommitted") as all_there_is,
        ):
            while await committed.end_offsets(places) != await all_there_is.end_offsets(places):
                await asyncio.sleep(0.02)

    def reader(self, topics: list[str], isolation: str = "read_committed") -> "_Reader":
        """A consumer from the beginning, without a group."""
        return _Reader(self, topics, isolation)


def started(
    arguments: Sequence[str], environment: Mapping[str, str], log: int, folder: Path
) -> "subprocess.Popen[bytes] | Forked":
    """A worker: forked, unless it is to load other modules or start processes of its own."""
    if is_forkable(environment) and "--processes" not in arguments:
        with open(os.devnull, "rb") as nothing:
            return fork(arguments, environment, folder, (nothing.fileno(), log, log))
    command = [sys.executable, "-m", "services.cli", *arguments]
    return subprocess.Popen(command, cwd=folder, stderr=log, stdout=log, env=environment)


async def _poll(consumer: AIOKafkaConsumer) -> list[ConsumerRecord]:
    batches = await consumer.getmany(timeout_ms=200)
    return [record for records in batches.values() for record in records]


def _events(records: Iterable[ConsumerRecord]) -> list[dict[str, Any]]:
    return [
        {**json.loads(record.value), "_partition": record.partition}
        for record in records
        if record.value is not None
    ]


def _toml(table: Mapping[str, Any]) -> str:
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in table.items())


class _Reader:
    def __init__(self, bus: Bus, topics: list[str], isolation: str) -> None:
        self._bus, self._topics = bus, topics
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=bus.bootstrap,
            isolation_level=isolation,
            auto_offset_reset="earliest",
        )

    async def __aenter__(self) -> AIOKafkaConsumer:
        await self._consumer.start()
        self._consumer.assign(
            [TopicPartition(n, p) for n in self._topics for p in range(self._bus.partitions)]
        )
        return self._consumer

    async def __aexit__(self, *_: object) -> None:
        await close(self._consumer.stop())


async def until(true: Callable[[], bool], what: str, limit_s: float = 30.0) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < deadline, f"in {limit_s} s not: {what}"
        await asyncio.sleep(0.02)


async def create_topics(bus: Bus, replicas: int = 1, topics: Sequence[Topic] = TOPICS) -> None:
    """What `answerbus topics apply` does, for a few partitions."""
    async with kafka_admin(bus.bootstrap) as admin:
        await admin.create_topics(
            [
                NewTopic(bus.topic(t), bus.partitions, replicas, topic_configs=dict(t.settings()))
                for t in topics
            ]
        )
        await until_ready(admin, [bus.topic(topic) for topic in topics])


async def until_ready(admin: AIOKafkaAdminClient, names: list[str]) -> None:
    """Wait until the broker has the topics that it was asked to create."""
    async with asyncio.timeout(20):
        while not all(map(_is_ready, await admin.describe_topics(names))):
            await asyncio.sleep(0.05)


async def remove_topics(bus: Bus) -> None:
    """Delete the topics of its prefix: each client fetches the metadata of all topics."""
    async with kafka_admin(bus.bootstrap) as admin:
        names = await admin.list_topics()
        await admin.delete_topics([name for name in names if name.startswith(f"{bus.prefix}.")])


def _is_ready(topic: Mapping[str, Any]) -> bool:
    return bool(topic["partitions"]) and not topic["error_code"]


def request(
    request_id: str, workflow_id: str, instructions: str = "Propose a change.", **more: Any
) -> dict[str, Any]:
    """A minimal request for plan_proposal."""
    return {
        "kind": "request",
        "request_id": request_id,
        "workflow_id": workflow_id,
        "answer_schema": {"kind": "contract", "name": "plan_proposal", "version": 1},
        "context": {"instructions": instructions},
        **more,
    }


DEP_BUMP = {
    "kind": "dep_bump",
    "manifest_path": "package.json",
    "package": "lodash",
    "target_version": "4.17.21",
}
ANSWERED = {"kind": "answered", "json": {**DEP_BUMP, "rationale": "a fixed release exists"}}
