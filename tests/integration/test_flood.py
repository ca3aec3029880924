"""One workflow with thousands of slow requests in a partition, on a real broker."""

import time
from typing import Any

import pytest

from answerbus.partition import partition_of
from tests.integration.bus import ANSWERED, Bus, request, until

pytestmark = pytest.mark.kafka

FLOOD = 2_600
CALL_S = 45.0
OTHERS = 119
LIMIT_S = 20.0  # for all of the others; before there was a share it took as long as the calls
RULES: list[dict[str, Any]] = [
    {"when": {"request_id": "flood-*"}, "reply": ANSWERED, "latency_s": CALL_S},
    {"reply": ANSWERED, "latency_s": 0.05},
]


def beside(workflow: str, partitions: int, count: int) -> list[str]:
    """Other workflows of its partition."""
    mine = partition_of(workflow, partitions)
    names = (f"other-{number}" for number in range(10_000))
    return [name for name in names if partition_of(name, partitions) == mine][:count]


@pytest.mark.parametrize("budget", [{"attempts": 400}, {"attempts": 100_000}])
async def test_others_of_its_partition_are_answered_in_seconds(
    bus: Bus, budget: dict[str, int]
) -> None:
    worker = bus.start_worker(bus.config(RULES, worker={"max_in_flight": 1_000}))
    unordered: dict[str, Any] = {"policy": {"ordering": "none"}, "ttl_s": 3_600, "budget": budget}
    await bus.publish(request(f"flood-{n}", "flood", **unordered) for n in range(FLOOD))
    await until(lambda: len(bus.calls()) >= 300, "the flood is being called", 60)
    partition = str(partition_of("flood", bus.partitions))

    def holds_most() -> bool:
        holder = worker.health["held_by"].get(partition)
        return bool(holder) and holder["requests"] > FLOOD // 2

    await until(holds_most, "the flood holds the lane", 60)
    assert worker.health["held_by"][partition]["workflow_id"] == "flood"
    assert (
        f'holder_requests{{partition="{partition}",workflow_id="flood"}}'
        in worker.get("/metrics").decode()
    )

    began = time.monotonic()
    workflows = beside("flood", bus.partitions, OTHERS)
    await bus.publish(request(f"r-{n}", workflow) for n, workflow in enumerate(workflows))
    ended = await bus.terminals(OTHERS, LIMIT_S + 10)
    took_s = time.monotonic() - began

    kinds = {event["request_id"]: event["kind"] for event in ended}
    results = {request_id for request_id, kind in kinds.items() if kind == "result"}
    assert results >= {f"r-{n}" for n in range(OTHERS)}
    assert took_s < LIMIT_S
    worker.kill()
