"""CPU of a request in its lane: `python -m tests.benchmarks.cost_of_a_request`.

From the bytes of its record to those of its outcome, without sockets: the broker is in memory, the
server answers after a second of virtual time. So nothing depends on what else the machine does.
"""

import asyncio
import json
import sys
import time

from answerbus.partition import partition_of
from answerbus.registry import Registry
from answerbus.topics import ATTEMPTS, LEDGER, REQUESTS, RESULTS
from services.worker.adapters.garbage_collector import tune_garbage_collector
from services.worker.adapters.providers.apis.api import HttpRequest, HttpResponse
from services.worker.adapters.providers.apis.connection import Connection
from services.worker.adapters.providers.apis.openai import OpenAIApi
from services.worker.adapters.providers.http import HttpProvider
from services.worker.core.attempt.plan import ProfileFacts
from services.worker.lane.context import LaneContext, Limits
from services.worker.limits.profile_limiter import ProfileLimiter
from services.worker.limits.slots import Slots
from services.worker.planning.planner import Backend, Planner
from tests.benchmarks.stub import COMPLETION
from tests.benchmarks.upstream import bodies
from tests.unit.worker import builders
from tests.unit.worker.builders import PARTITIONS
from tests.unit.worker.lane.fakes import Broker
from tests.unit.worker.lane.virtual import VirtualClock, run
from tests.unit.worker.lane.world import Worker

REQUESTS_A_ROUND, WORKFLOWS, ROUNDS = 200, 2_000, 30
CALL_S = 1.0
BODY = json.dumps(COMPLETION).encode()


class Answering(HttpProvider):
    """OpenAI's API, whose server is not there."""

    def __init__(self) -> None:
        super().__init__(OpenAIApi(Connection("stub", "key", REQUESTS_A_ROUND)), VirtualClock())

    async def _exchange(
        self, request: HttpRequest, timeout_s: float, begins_by: float | None = None
    ) -> HttpResponse:
        await asyncio.sleep(CALL_S)
        return HttpResponse(200, {"content-type": "application/json"}, BODY)


def context() -> LaneContext:
    facts = ProfileFacts("default", "openai", "stub", 4_096, 60.0, None)
    backend = Backend(facts, "openai", Answering(), ProfileLimiter(REQUESTS_A_ROUND))
    return LaneContext(
        worker="me",
        partitions=PARTITIONS,
        planner=Planner({"default": backend}, Registry(), b"secret"),
        clock=VirtualClock(),
        jitter=lambda: 0.5,
        backoff=builders.BACKOFF,
        limits=Limits(REQUESTS_A_ROUND, 1_000, 10_000, 1_000_000_000),
        slots=Slots(REQUESTS_A_ROUND),
    )


async def costs_us() -> list[float]:
    """Of a request, in each round."""
    broker, found = Broker(), []
    worker = Worker(broker, context())
    await worker.open()
    every = bodies("r", ROUNDS * REQUESTS_A_ROUND * PARTITIONS, WORKFLOWS)
    ours = (body for body in every if partition_of(body["workflow_id"], PARTITIONS) == 0)
    tune_garbage_collector(REQUESTS_A_ROUND)
    for _ in range(ROUNDS):
        for log in (REQUESTS, RESULTS, ATTEMPTS, LEDGER):
            broker.log(log).records.clear()
        for _ in range(REQUESTS_A_ROUND):
            broker.publish(json.dumps(next(ours)).encode())
        began = time.thread_time()
        while len(broker.log(RESULTS).records) < REQUESTS_A_ROUND:
            await asyncio.sleep(CALL_S / 10)
        found.append(1e6 * (time.thread_time() - began) / REQUESTS_A_ROUND)
    await worker.drain()
    return found


def main() -> None:
    """The least of all rounds, since others work here, too."""
    found = run(costs_us())
    middle = sorted(found)[ROUNDS // 2]
    sys.stdout.write(f"{min(found):.0f} µs a request, the middle {middle:.0f}\n")


if __name__ == "__main__":
    main()
