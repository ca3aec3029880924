"""`python -m tests.simulation.scale`: a cluster of many workers, and how long trouble lasts there.

The lanes, intake and Kafka adapter are the product's; Kafka, the group and the provider are those
of the simulation, on a virtual clock, without any cost of CPU or network. So it shows waits and
repeated calls, and no throughput. Prints a line of JSON for each kind of trouble.
"""

import asyncio
import json
import math
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any
from unittest import mock

import typer

from answerbus.topics import REQUESTS
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import Answered, Reply, Unavailable
from services.worker.lane.context import Limits
from tests.chaos.audit.canonical import owner
from tests.simulation import group as coordinator
from tests.simulation.boundary import Boundary
from tests.simulation.cluster import TERMINAL_TOPICS, Cluster
from tests.simulation.group import Group
from tests.simulation.process import Process, run_and_clean_up
from tests.simulation.provider import FACTS, GOOD, SimProvider
from tests.simulation.timeline import Timeline
from tests.simulation.upstream import THING
from tests.simulation.worker import PREFIX, Worker, World, simulated_clients

TOPIC = REQUESTS.full_name(PREFIX)
SESSION_S = 45.0  # kafka.session_timeout_ms, as it is by default
CALM_S = 60.0  # of requests before the trouble, after all lanes have opened
OPENED_S = 60.0
AFTER_S = 240.0  # of requests after it
DRAIN_S = 30.0
REPLACED_AFTER_S = 60.0  # for lost workers, by whoever looks after them
OUTAGE_S = 3_600.0
WINDOW_S = 5.0
NORMAL_S = 1.0  # that 95 in 100 wait at most, beside their own call
CALL_MEDIAN_S, CALL_SIGMA, CALL_S_MAX = 1.0, 0.8, 15.0
LOOK_S = 1.0
END_S_MAX = 7_200.0


class Silent(Timeline):
    """Nobody reads a million lines."""

    def tell(self, text: str | Callable[[], str], lane: int | None = None, who: str = "") -> None:
        """Not kept."""


@dataclass(slots=True)
class SteadyProvider(SimProvider):
    """Answers rightly after a log-normal time; while it is away, connections are refused."""

    def _play(self, prompt: Prompt) -> tuple[float, Reply]:
        if self.is_away:
            return 0.0, Unavailable(None, ran=False)
        return self.call_s(prompt.request_id), Answered(GOOD, FACTS)

    def call_s(self, request_id: str) -> float:
        """How long the one call of a request takes."""
        chance = random.Random(f"{self.seed} {request_id}")
        return min(chance.lognormvariate(math.log(CALL_MEDIAN_S), CALL_SIGMA), CALL_S_MAX)


class BigCluster:
    """Workers, lanes, and an upstream that asks `per_s` requests, each of its own workflow."""

    def __init__(self, lanes: int, per_s: float, seed: int) -> None:
        chance = random.Random(seed)
        self.lanes, self.per_s, self._seed = lanes, per_s, seed
        limits = Limits(
            max_in_flight=1_000, held_max=10_000, lane_requests_max=2_000, lane_bytes_max=2**25
        )
        boundary = Boundary(Silent(), lanes, limits.lane_requests_max)
        self.cluster = Cluster(chance, Silent(), boundary)
        self.group = Group(self.cluster, lanes, boundary, chance)
        self.group._reshuffled = 0.0  # as Kafka's own assignor: what stays may stay
        self.provider = SteadyProvider(seed, Silent(), 0.0)
        self._world = World(
            self.cluster, self.group, self.provider, self.provider, (), lanes, limits
        )
        self.workers: list[Worker] = []
        self.processes: list[Process] = []
        self.published: dict[str, float] = {}

    def start(self, number: int) -> None:
        """So many workers more."""
        for _ in range(number):
            process = Process(f"worker-{len(self.processes)}", len(self.processes))
            self.processes.append(process)
            chance = random.Random(f"{self._seed} {process.name}")
            self.workers.append(Worker(self._world, process, chance))

    def stop(self, number: int) -> None:
        """They are told to stop, as by SIGTERM."""
        for worker in self._taken(number):
            worker.drain(DRAIN_S)

    def kill(self, number: int) -> None:
        """All at once."""
        for worker in self._taken(number):
            worker.process.is_dead = True

    def _taken(self, number: int) -> list[Worker]:
        gone, self.workers = self.workers[:number], self.workers[number:]
        for worker in gone:
            worker.process.absences += 1
            self.group.lose_touch(worker.process)
        return gone

    async def publish(self, seconds: float) -> None:
        for _ in range(int(seconds * self.per_s)):
            number = len(self.published)
            name, workflow = f"r-{number}", f"w-{number}"
            body = {
                "kind": "request",
                "request_id": name,
                "workflow_id": workflow,
                "answer_schema": THING,
                "context": {"instructions": "Say something."},
                "ttl_s": 86_400,
            }
            place = owner(workflow, self.lanes)
            self.published[name] = self.cluster.clock.now().timestamp()
            self.cluster.produce(None, 0, [(TOPIC, place, None, json.dumps(body).encode(), ())])
            await asyncio.sleep(1 / self.per_s)

    async def end(self) -> None:
        """Everything has been answered."""
        loop = asyncio.get_running_loop()
        until = loop.time() + END_S_MAX
        while len(self.answered()) < len(self.published):
            if loop.time() > until:
                raise RuntimeError("some requests have no outcome")
            await asyncio.sleep(LOOK_S)

    def answered(self) -> dict[str, float]:
        """When the first outcome of each request was written."""
        found: dict[str, float] = {}
        for (topic, _), log in self.cluster.logs.items():
            if topic.endswith(TERMINAL_TOPICS):
                for entry in log.whole:
                    if entry.is_committed:
                        name = json.loads(entry.value or b"")["request_id"]
                        found.setdefault(name, entry.at.timestamp())
        return found


Trouble = Callable[[BigCluster], Coroutine[Any, Any, None]]


async def _joins(cluster: BigCluster) -> None:
    cluster.start(max(1, len(cluster.workers) // 10))


async def _leaves(cluster: BigCluster) -> None:
    cluster.stop(max(1, len(cluster.workers) // 10))


async def _zone_lost(cluster: BigCluster) -> None:
    lost = max(1, len(cluster.workers) // 3)
    cluster.kill(lost)
    asyncio.get_running_loop().call_later(REPLACED_AFTER_S, cluster.start, lost)


async def _provider_away(cluster: BigCluster) -> None:
    cluster.provider.is_away = True
    publishing = asyncio.create_task(cluster.publish(OUTAGE_S))
    await asyncio.sleep(OUTAGE_S)
    await publishing
    cluster.provider.is_away = False


TROUBLES: dict[str, Trouble] = {
    "one worker in ten joins": _joins,
    "one worker in ten leaves": _leaves,
    "a third of the workers is lost": _zone_lost,
    "the provider is away for an hour": _provider_away,
}


@dataclass(slots=True)
class Course:
    """When the trouble began and ended, in virtual time."""

    began: float = 0.0
    ended: float = 0.0


async def _play(cluster: BigCluster, trouble: Trouble, course: Course) -> None:
    await asyncio.sleep(OPENED_S)
    await cluster.publish(CALM_S)
    course.began = cluster.cluster.clock.now().timestamp()
    await trouble(cluster)
    course.ended = cluster.cluster.clock.now().timestamp()
    await cluster.publish(AFTER_S)
    await cluster.end()


def measured(cluster: BigCluster, course: Course) -> dict[str, float]:
    """`normal_after_s`: from the end of the trouble to the end of the last window that is slow."""
    answered = cluster.answered()
    waited = {
        name: answered[name] - at - cluster.provider.call_s(name)
        for name, at in cluster.published.items()
    }
    windows: dict[int, list[float]] = defaultdict(list)
    for name, at in cluster.published.items():
        windows[int((at - course.began) // WINDOW_S)].append(waited[name])
    calm = [wait for number, found in windows.items() if number < -1 for wait in found]
    slow = [number for number, found in windows.items() if percentile(found) > NORMAL_S]
    last_slow = course.began + (max(slow, default=-1) + 1) * WINDOW_S
    ran = Counter(call.request_id for call in cluster.provider.noted if call.ran is not False)
    return {
        "requests": len(cluster.published),
        "calm_wait_p95_s": round(percentile(calm), 3),
        "normal_after_s": round(max(last_slow - course.ended, 0.0), 1),
        "longest_wait_s": round(max(waited.values()), 1),
        "calls_repeated": sum(count - 1 for count in ran.values()),
        "bytes_written": written_bytes(cluster) // len(cluster.published),
        "calls_in_vain": sum(call.ran is False for call in cluster.provider.noted),
    }


def written_bytes(cluster: BigCluster) -> int:
    """Keys, values and headers of all records, but for the requests themselves."""
    logs = (log for (topic, _), log in cluster.cluster.logs.items() if topic != TOPIC)
    return sum(
        len(entry.key or b"")
        + len(entry.value or b"")
        + sum(len(name) + len(value or b"") for name, value in entry.headers)
        for log in logs
        for entry in log.whole
    )


def percentile(found: list[float]) -> float:
    """That of 95 in 100."""
    return sorted(found)[int(len(found) * 0.95)]


def play(lanes: int, workers: int, per_s: float, trouble: Trouble, seed: int) -> dict[str, float]:
    """One cluster from its start to the last answer."""
    cluster, course = BigCluster(lanes, per_s, seed), Course()

    async def main() -> None:
        cluster.start(workers)
        await _play(cluster, trouble, course)

    with simulated_clients(), mock.patch.object(coordinator, "SESSION_S", SESSION_S):
        errors = run_and_clean_up(main(), cluster.processes)
    if errors:
        raise RuntimeError(errors[0])
    return measured(cluster, course)


def main(
    lanes: Annotated[int, typer.Option()] = 1_000,
    workers: Annotated[int, typer.Option()] = 100,
    per_s: Annotated[float, typer.Option(help="requests a second, of all lanes")] = 50.0,
    seed: Annotated[int, typer.Option()] = 1,
    only: Annotated[str, typer.Option(help="kinds of trouble with this in their names")] = "",
) -> None:
    for name, trouble in TROUBLES.items():
        if only not in name:
            continue
        began = time.thread_time()
        found = play(lanes, workers, per_s, trouble, seed)
        about = {"trouble": name, "lanes": lanes, "workers": workers, "per_s": per_s, **found}
        line = json.dumps(about | {"cpu_s": round(time.thread_time() - began, 1)})
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    typer.run(main)
