"""What upstream publishes in a benchmark: requests of about 2 KB, marked for the stub's journal."""

import json
import time
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from confluent_kafka import Message, Producer

from answerbus.partition import partition_of
from tests.benchmarks.journal import MARK, MARK_END

CONTEXT_BYTES = 2_048
BUDGET_ATTEMPTS = 100_000  # a benchmark is not about budgets that run out
DELIVERY_LIMIT_S = 60.0
_LINE = "npm audit: lodash <4.17.21 is open to command injection (GHSA-35jh-r3h4-6jhm); "


@cache
def _text(of_bytes: int) -> str:
    return (_LINE * (of_bytes // len(_LINE) + 1))[:of_bytes]


def request_body(
    request_id: str, workflow_id: str, context_bytes: int = CONTEXT_BYTES
) -> dict[str, Any]:
    """A request for a plan proposal."""
    return {
        "kind": "request",
        "request_id": request_id,
        "workflow_id": workflow_id,
        "answer_schema": {"kind": "contract", "name": "plan_proposal", "version": 1},
        "context": {
            "instructions": f"{MARK.decode()}{request_id}{MARK_END.decode()} Propose one change.",
            "messages": [{"role": "user", "content": _text(context_bytes)}],
        },
        "budget": {"attempts": BUDGET_ATTEMPTS},
    }


def bodies(name: str, count: int, workflows: int) -> Iterator[dict[str, Any]]:
    """Requests of workflows that take turns."""
    for n in range(count):
        yield request_body(f"{name}-{n}", f"{name}-w{n % workflows}")


class Upstream:
    """Publishes, each request into its workflow's partition, and keeps when it was appended."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._topic, self._partitions = topic, partitions
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 1, "acks": "all", "log_level": 0}
        )
        self.appended_at: dict[str, float] = {}
        self.failed = 0

    def publish(self, body: dict[str, Any]) -> None:
        """Hand one over; returns at once."""
        self.send(body["workflow_id"], body["request_id"], json.dumps(body).encode())

    def send(self, workflow_id: str, request_id: str, value: bytes) -> None:
        """Hand over any bytes, for the partition of a workflow."""
        partition = partition_of(workflow_id, self._partitions)

        def on_delivery(error: object, message: Message) -> None:
            self.failed += error is not None
            self.appended_at[request_id] = message.timestamp()[1] / 1000

        key = workflow_id.encode()
        while True:
            try:
                self._producer.produce(
                    self._topic, value, key, partition=partition, on_delivery=on_delivery
                )
                break
            except BufferError:
                self._producer.poll(0.1)
        self._producer.poll(0)

    def publish_all(self, requests: Iterable[dict[str, Any]]) -> None:
        """Publish, and wait until all are there."""
        for body in requests:
            self.publish(body)
        self.flush()

    def publish_at(self, requests: Iterable[dict[str, Any]], per_s: float) -> None:
        """Publish at an even rate, without waiting for outcomes."""
        began = time.monotonic()
        for n, body in enumerate(requests):
            time.sleep(max(0.0, began + n / per_s - time.monotonic()))
            self.publish(body)
        self.flush()

    def flush(self) -> None:
        """Wait until everything is appended."""
        left = self._producer.flush(DELIVERY_LIMIT_S)
        if left or self.failed:
            raise RuntimeError(f"{left + self.failed} requests were not published")
