"""Tool servers as processes, and calls as a worker makes them."""

import asyncio
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from answerbus.client.bus import Bus
from answerbus.tool_result import ToolResult
from answerbus.tools.topic_set_up import create_missing
from answerbus.topics import TOOL_RESULTS, tool_calls, toolset_cards
from services.tools.calling import call_once, check_now
from services.tools.check.call_by_hand import HandCaller
from services.tools.check.cases import Sample
from services.worker.adapters.clock import SystemClock

ROOT = Path(__file__).parents[2]
LIMIT_S = 120.0
TOKEN = "AAAAAAAAAAAAAAAAAAAAAA=="
SESSION_MS = "6000"  # the least that brokers accept by default


@dataclass
class ToolBus:
    """The topics of tools on a broker, under a prefix of their own."""

    bootstrap: str
    prefix: str
    folder: Path
    processes: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    @property
    def variables(self) -> dict[str, str]:
        inherited = os.environ.items()  # noqa: TID251 - all but settings
        return {
            **{name: text for name, text in inherited if not name.startswith("ANSWERBUS_")},
            "ANSWERBUS_KAFKA__BOOTSTRAP_SERVERS": self.bootstrap,
            "ANSWERBUS_KAFKA__TOPIC_PREFIX": self.prefix,
            "ANSWERBUS_KAFKA__SESSION_TIMEOUT_MS": SESSION_MS,
            "KAFKA": self.bootstrap,
            "TOPIC_PREFIX": self.prefix,
            "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
            "COLUMNS": "200",
        }

    async def create(self, *toolsets: str) -> None:
        """Their topics, before anything reads or writes them."""
        await create_missing(Bus(self.bootstrap, self.prefix, {}), *toolsets)

    def start(self, *command: str, **variables: str) -> "subprocess.Popen[bytes]":
        """A server of any language; its log is the test's own."""
        with (self.folder / f"server-{len(self.processes)}.log").open("wb") as log:
            process = subprocess.Popen(
                command, cwd=ROOT, env={**self.variables, **variables}, stdout=log, stderr=log
            )
        self.processes.append(process)
        return process

    def serve(self, *arguments: str, **variables: str) -> "subprocess.Popen[bytes]":
        return self.start(sys.executable, "-m", "services.cli", "tools", *arguments, **variables)

    def logs(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("server-*.log")))

    async def announced(self, *toolsets: str) -> None:
        """Wait until these have a card."""
        wanted = {name.encode() for name in toolsets}
        names = [toolset_cards(name).full_name(self.prefix) for name in toolsets]
        async with (
            asyncio.timeout(LIMIT_S),
            AIOKafkaConsumer(
                *names, bootstrap_servers=self.bootstrap, auto_offset_reset="earliest"
            ) as consumer,
        ):
            while wanted:
                assert all(process.poll() is None for process in self.processes), self.logs()
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    wanted -= {record.key for record in records}

    async def publish(self, toolset: str, calls: Sequence[tuple[str, str, dict[str, Any]]]) -> None:
        """Call ids, tools and arguments, spread over the partitions as a worker's are."""
        at = SystemClock().now()
        caller = HandCaller("w-1", TOOL_RESULTS.full_name(self.prefix), 1, TOKEN)
        async with AIOKafkaProducer(bootstrap_servers=self.bootstrap) as producer:
            for call_id, tool, args in calls:
                call = caller.call(call_id, toolset, tool, args, at=at, expires_s=600.0)
                topic = tool_calls(toolset).full_name(self.prefix)
                value = call.model_dump_json().encode()
                await producer.send_and_wait(topic, value, call_id.encode())

    async def results(self, wanted: set[str]) -> list[dict[str, Any]]:
        """All results that are there once there is one for each of the calls."""
        place = TopicPartition(TOOL_RESULTS.full_name(self.prefix), 1)
        found: list[dict[str, Any]] = []
        async with (
            asyncio.timeout(LIMIT_S),
            AIOKafkaConsumer(bootstrap_servers=self.bootstrap) as consumer,
        ):
            consumer.assign([place])
            await consumer.seek_to_beginning(place)
            while not wanted <= {result["call_id"] for result in found}:
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    found += [json.loads(record.value) for record in records]
        return found

    def command(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "services.cli", "tools", *arguments],
            cwd=ROOT,
            env=self.variables,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    async def call(
        self, toolset: str, tool: str, args: dict[str, Any]
    ) -> tuple[ToolResult, list[str]]:
        """What `tools call` does, without a process: the result, and the progress before it."""
        notes: list[str] = []
        result = await call_once(
            Bus(self.bootstrap, self.prefix, {}),
            toolset,
            Sample(tool, args),
            name=f"call-{uuid.uuid4().hex}",
            token=TOKEN,
            timeout_s=LIMIT_S,
            on_progress=lambda progress: notes.append(progress.note),
        )
        assert result is not None, self.logs()
        return result, notes

    async def broken_rules(self, toolset: str, tool: str, args: dict[str, Any]) -> dict[str, str]:
        """What `tools check` does: each rule that is not ok, with what was seen."""
        rulings = await check_now(
            Bus(self.bootstrap, self.prefix, {}),
            toolset,
            Sample(tool, args),
            f"check-{uuid.uuid4().hex}",
            TOKEN,
            LIMIT_S,
            lambda _: None,
        )
        assert len(rulings) > 15
        return {ruling.rule: ruling.said for ruling in rulings if ruling.verdict != "ok"}


@contextmanager
def ending(bus: ToolBus) -> Iterator[ToolBus]:
    """Kill what the test started."""
    try:
        yield bus
    finally:
        for process in bus.processes:
            process.kill()
            process.wait()


def wait_until(is_true: Any, what: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not is_true():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)
