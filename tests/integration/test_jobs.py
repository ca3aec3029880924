"""A job of many rows on a real Kafka: killed again and again, each row is paid once."""

import asyncio
import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from answerbus.client import Client
from tests.integration.bus import ROOT, Bus, until

pytestmark = pytest.mark.kafka

KILLS = 3
PROGRAM = """
import sys
from answerbus.client import SyncClient

bootstrap, prefix, rows, out = sys.argv[1:]
with SyncClient(bootstrap, topic_prefix=prefix) as client:
    job = client.ask_many(
        [{"n": n} for n in range(int(rows))], "Name it.", job_id="job", concurrency=20
    )
with open(out, "w") as file:
    file.write("\\n".join(str(one.outcome.unwrap()) for one in job))
"""


def started(bus: Bus, rows: int, out: Path) -> "subprocess.Popen[bytes]":
    arguments = [bus.bootstrap, bus.prefix, str(rows), str(out)]
    return subprocess.Popen([sys.executable, "-c", PROGRAM, *arguments], cwd=ROOT / "contracts")


def _has_calls(bus: Bus, count: int) -> bool:
    return len(bus.calls()) >= count


async def killed_thrice(bus: Bus, rows: int, limit_s: float) -> None:
    bus.start_worker(bus.config([{"reply": {"kind": "answered", "content": "A number."}}]))
    out = bus.folder / "out.txt"
    for kill in range(1, KILLS + 1):
        process = started(bus, rows, out)
        wanted = rows * kill // (KILLS + 1)
        try:
            await until(partial(_has_calls, bus, wanted), f"{wanted} calls", limit_s)
            assert process.poll() is None, "the job was over before it was killed"
        finally:
            process.kill()
            process.wait()
    last = started(bus, rows, out)
    assert await asyncio.to_thread(last.wait, limit_s) == 0

    assert out.read_text().splitlines() == ["A number."] * rows
    assert len(bus.calls()) == rows


@pytest.mark.long
async def test_a_job_that_is_killed_thrice_asks_each_row_once(bus: Bus) -> None:
    await killed_thrice(bus, 300, 90)


@pytest.mark.long
async def test_a_long_job_that_is_killed_thrice_asks_each_row_once(bus: Bus) -> None:
    await killed_thrice(bus, 10_000, 1_200)


async def test_the_command_goes_on_where_it_was(bus: Bus) -> None:
    config = bus.config([{"reply": {"kind": "answered", "json": {"team": "web"}}}])
    bus.start_worker(config)
    folder = bus.folder
    (folder / "schema.json").write_text(json.dumps({"type": "object"}))
    (folder / "tickets.csv").write_text("id,text\n1,It fell.\n2,It broke.\n")
    (folder / "tickets.jsonl").write_text('{"id": "1", "text": "It fell."}\n{"id": "3"}\n')
    out = folder / "out.jsonl"

    for name, calls in (("tickets.csv", 2), ("tickets.csv", 2), ("tickets.jsonl", 3)):
        line = [name, "Which team?", "--schema", "schema.json", "--out", str(out)]
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "services.cli", "ask-many", *line, "--config", str(config)],
            cwd=folder,
            env={"PYTHONPATH": f"{ROOT}:{ROOT / 'contracts'}"},
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        assert len(bus.calls()) == calls

    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["row"] for line in lines] == [0, 1]
    assert [line["answer"] for line in lines] == [{"team": "web"}] * 2
    async with Client(bus.bootstrap, topic_prefix=bus.prefix) as client:
        found = await client.outcome_of(lines[1]["request_id"], "tickets", timeout_s=20)
    assert found.unwrap() == {"team": "web"}
