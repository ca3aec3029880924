"""The independent check of the demo: it knows nothing of ours, and it finds what is wrong."""

import ast
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from answerbus.topics import RESULTS
from tests.integration.bus import ANSWERED, Bus, request

SCRIPT = Path(__file__).parents[2] / "infra" / "demo" / "revalidate.py"
LIMIT_S = 60.0
FORM: Mapping[str, Any] = {
    "type": "object",
    "properties": {"even": {"$ref": "#/$defs/even"}},
    "required": ["even"],
    "additionalProperties": False,
    "$defs": {"even": {"type": "integer", "multipleOf": 2}},
}
WRAPPED = {"success": True, "output": {"even": 2}, "notes": [], "failure_reason": None}


def revalidate(bus: Bus) -> tuple[int, list[str]]:
    options = ("--bootstrap-servers", bus.bootstrap, "--topic-prefix", bus.prefix)
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *options],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def inline(name: str, *, wrapped: bool) -> dict[str, Any]:
    return {"kind": "inline", "name": name, "wrapped": wrapped, "json_schema": dict(FORM)}


def test_it_imports_nothing_of_ours() -> None:
    roots = {
        name.partition(".")[0]
        for node in ast.walk(ast.parse(SCRIPT.read_text(encoding="utf-8")))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or "."]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }

    assert roots - sys.stdlib_module_names == {"confluent_kafka", "jsonschema"}


@pytest.mark.kafka
async def test_it_agrees_with_the_worker_and_finds_what_no_worker_would_write(bus: Bus) -> None:
    bus.start_worker(
        bus.config(
            [
                {
                    "when": {"request_id": "r-wrapped"},
                    "reply": {"kind": "answered", "json": WRAPPED},
                },
                {
                    "when": {"request_id": "r-bare"},
                    "reply": {"kind": "answered", "json": {"even": 4}},
                },
                {
                    "when": {"request_id": "r-text"},
                    "reply": {"kind": "answered", "content": "Two."},
                },
                {"when": {"request_id": "r-no"}, "reply": {"kind": "refused", "reason": "no"}},
                {"reply": ANSWERED},
            ]
        )
    )
    await bus.publish(
        [
            request("r-plan", "w-1"),
            request("r-no", "w-2"),
            request("r-text", "w-3", answer_schema={"kind": "text"}),
            request("r-bare", "w-4", answer_schema=inline("bare", wrapped=False)),
            request("r-wrapped", "w-5", answer_schema=inline("wrapped", wrapped=True)),
            request("r-lost", "w-6", profile="nobody"),
        ]
    )
    await bus.terminals(6)

    # One attempt for each that was asked, and one terminal for each request.
    assert revalidate(bus) == (0, ["11 events and 4 answers validated again, 0 faults"])

    await _forge(bus)
    code, (*faults, total) = revalidate(bus)

    assert code == 1
    assert total == "14 events and 7 answers validated again, 3 faults"
    assert sorted(fault.partition(":")[0] for fault in faults) == [
        "answer in the result of r-bare",
        "answer in the result of r-wrapped",
        "result of r-plan",
    ]


async def _forge(bus: Bus) -> None:
    """Results of three requests once more, each with one fault."""
    results = {event["request_id"]: event for event in await bus.everything(RESULTS)}
    for event in results.values():
        event.pop("_partition")
    results["r-plan"]["attempt"] = 0
    results["r-bare"]["answer"]["even"] = 3
    results["r-wrapped"]["answer"]["output"] = {}
    async with AIOKafkaProducer(bootstrap_servers=bus.bootstrap) as producer:
        for name in ("r-plan", "r-bare", "r-wrapped"):
            value = json.dumps(results[name]).encode()
            await producer.send_and_wait(bus.topic(RESULTS), value, partition=0)
