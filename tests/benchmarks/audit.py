"""`python -m tests.benchmarks.audit`: time and memory of `answerbus audit verify` at a size."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from answerbus.partition import partition_of
from answerbus.topics import ATTEMPTS, LEDGER, PARTITIONS_DEFAULT, RESULTS, Topic
from infra.kafka import start_broker
from services.text.digest import canonical_digest

EXAMPLES = Path(__file__).parents[2] / "contracts/examples"
ATTEMPTS_EACH = 4  # of each account: three retries and the result
USED = {"input_tokens": 812, "output_tokens": 64, "micro_usd": 331}


def main() -> None:
    """Fill the topics of a broker of its own, and verify them; prints one JSON line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--attempts", type=int, default=1_000_000)
    count = parser.parse_args().attempts
    with tempfile.TemporaryDirectory() as folder:
        broker = start_broker(Path(folder) / "kafka")
        try:
            bootstrap = broker.bootstrap_servers
            subprocess.run(
                command("topics", "apply"),
                env=variables(bootstrap),
                stdout=subprocess.DEVNULL,
                check=True,
            )
            fill(bootstrap, count)
            sys.stdout.write(json.dumps(verify(bootstrap)) + "\n")
        finally:
            broker.stop()


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "services.cli", *arguments]


def variables(bootstrap: str) -> dict[str, str]:
    inherited = dict(os.environ)  # noqa: TID251 - all of it, and where the broker is
    return {**inherited, "ANSWERBUS_KAFKA__BOOTSTRAP_SERVERS": bootstrap}


def verify(bootstrap: str) -> Mapping[str, Any]:
    """What the command says, how long it took, and the most memory that it had."""
    began = time.monotonic()
    process = subprocess.Popen(
        command("audit", "verify", "--json"), env=variables(bootstrap), stdout=subprocess.PIPE
    )
    assert process.stdout
    with process.stdout as out:
        fields: dict[str, Any] = json.load(out)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    figures = {
        "s": round(time.monotonic() - began, 1),
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 1),
        "peak_mib": round(usage.ru_maxrss / 1024),
    }
    return {name: fields[name] for name in ("whole", "attempts", "accounts")} | figures


def fill(bootstrap: str, count: int) -> None:
    """Accounts that are whole, with their attempts, results and ledger."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "log_level": 0})
    for number in range(count // ATTEMPTS_EACH):
        workflow_id = f"order-{number}"
        partition = partition_of(workflow_id, PARTITIONS_DEFAULT)
        for topic, key, body in account(workflow_id):
            value = json.dumps(body, separators=(",", ":"))
            name = topic.full_name()
            while True:
                try:
                    producer.produce(name, value, key, partition)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.poll(0)
    assert producer.flush() == 0


def account(workflow_id: str) -> Iterator[tuple[Topic, str, Mapping[str, Any]]]:
    """All that is told of one account."""
    request_id, head = f"{workflow_id}.r", None
    for number in range(1, ATTEMPTS_EACH + 1):
        body = {
            **_example("attempt/result"),
            "event_id": f"{request_id}.attempt.{number}",
            "request_id": request_id,
            "workflow_id": workflow_id,
            "account_id": workflow_id,
            "attempt": number,
            "outcome": "result" if number == ATTEMPTS_EACH else "retry",
            "usage": USED,
            "previous": head,
        }
        del body["hash"]
        head = canonical_digest(body)
        yield ATTEMPTS, workflow_id, {**body, "hash": head}
    spent = {
        "attempts": ATTEMPTS_EACH,
        "tokens": ATTEMPTS_EACH * (USED["input_tokens"] + USED["output_tokens"]),
        "micro_usd": ATTEMPTS_EACH * USED["micro_usd"],
    }
    state = {"id": workflow_id, "limit": {"attempts": ATTEMPTS_EACH}, "spent": spent}
    named = {"request_id": request_id, "workflow_id": workflow_id}
    terminal = {"attempt": ATTEMPTS_EACH, "account": state, "event_id": f"{request_id}.result"}
    yield RESULTS, workflow_id, {**_example("result/dep_bump"), **named, **terminal}
    closing = {
        **_example("account/new"),
        "account_id": workflow_id,
        "workflow_id": workflow_id,
        "limit": state["limit"],
        "spent": spent,
        "in_flight": [],
        "open": [],
        "last_attempt_hash": head,
    }
    yield LEDGER, f"account:{workflow_id}", closing


@cache
def _text(name: str) -> bytes:
    return (EXAMPLES / f"{name}.json").read_bytes()


def _example(name: str) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(_text(name))
    return body


if __name__ == "__main__":
    main()
