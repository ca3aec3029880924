"""A wave of load, and workers that come and go with it: `make autoscaling`.

Real processes on a real Kafka: 1, then up to 4, then 1 again. No call is repeated, no worker calls
more at once than it may, and nothing is left over.
"""

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console

from infra.kafka import start_broker
from tests.autoscaling.autoscaler import Autoscaler, seen_in
from tests.integration.bus import ANSWERED, Bus, Worker, create_topics, request

PARTITIONS = 12
WORKERS_MAX = 4
ALLOWED = 20  # calls at once, of one worker
CALL_S = 1.0
IDLE, WAVE = (5, 10.0), (70, 45.0)  # requests a second, seconds
LIMIT_S = 300.0


class Fleet:
    """Workers, the newest of which goes first; `most` is how many there were at once."""

    def __init__(self, bus: Bus) -> None:
        rules = [{"reply": ANSWERED, "latency_s": CALL_S}]
        self._bus = bus
        self._config = bus.config(rules, worker={"max_in_flight": ALLOWED, "drain_s": 30})
        self.running: list[Worker] = []
        self._leaving: list[Worker] = []
        self.most = 0
        self.saturation_max = 0.0

    async def scale(self, count: int) -> None:
        """Start or drain; a worker that drains is waited for at the end."""
        while len(self.running) < count:
            self.running.append(await asyncio.to_thread(self._bus.start_worker, self._config))
        self.most = max(self.most, len(self.running))
        while len(self.running) > count:
            worker = self.running.pop()
            worker.process.terminate()
            self._leaving.append(worker)

    async def pages(self) -> list[str]:
        """`/metrics` of each worker that answers."""
        found = []
        for worker in self.running:
            with suppress(OSError, IndexError):
                found.append((await asyncio.to_thread(worker.get, "/metrics")).decode())
        return found

    async def gone(self) -> list[int]:
        """The exit codes of all that left."""
        return [await asyncio.to_thread(one.process.wait, 60) for one in self._leaving]


async def publish(bus: Bus) -> int:
    """Quiet, a wave, quiet; gives how many requests that were."""
    count = 0
    for rate, seconds in (IDLE, WAVE, IDLE):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            began = time.monotonic()
            await bus.publish(request(f"r-{count + n}", f"w-{count + n}") for n in range(rate))
            count += rate
            await asyncio.sleep(max(1.0 - (time.monotonic() - began), 0.0))
    return count


async def control(fleet: Fleet, say: Callable[[str], None]) -> None:
    """The autoscaler's loop."""
    scaler = Autoscaler(WORKERS_MAX)
    while True:
        seen = seen_in(await fleet.pages())
        fleet.saturation_max = max(fleet.saturation_max, seen.saturation or 0.0)
        count = len(fleet.running)
        desired = scaler.desired(time.monotonic(), count, seen)
        if desired != count:
            say(f"{count} -> {desired} workers at {seen.in_flight:.0f} of {seen.allowed:.0f} calls")
            await fleet.scale(desired)
        await asyncio.sleep(1)


def most_at_once(bus: Bus) -> int:
    """Of the provider's own journal: the most calls that it had at one time."""
    events = [(call["at"], 1) for call in bus.calls()] + [(c["at"], -1) for c in bus.ended_calls()]
    now = most = 0
    for _, change in sorted(events):
        now += change
        most = max(most, now)
    return most


async def main(say: Callable[[str], None]) -> dict[str, Any]:
    """The run and its figures. AssertionError where something was lost, repeated or too much."""
    with tempfile.TemporaryDirectory(prefix="autoscaling-") as place:
        folder = Path(place)
        with start_broker(folder / "kafka") as broker:
            bus = Bus(broker.bootstrap_servers, "wave", PARTITIONS, folder)
            await create_topics(bus)
            fleet = Fleet(bus)
            try:
                return await _run(bus, fleet, say)
            finally:
                bus.stop_workers()


async def _run(bus: Bus, fleet: Fleet, say: Callable[[str], None]) -> dict[str, Any]:
    await fleet.scale(1)
    scaling = asyncio.create_task(control(fleet, say))
    began = time.monotonic()
    count = await publish(bus)
    terminals = await bus.terminals(count, LIMIT_S)
    while len(fleet.running) > 1 and time.monotonic() < began + LIMIT_S:
        await asyncio.sleep(0.5)
    scaling.cancel()
    codes = await fleet.gone()
    calls = Counter(call["request_id"] for call in bus.calls())  # each is answered at once
    figures = {
        "requests": count,
        "outcomes": len({terminal["request_id"] for terminal in terminals}),
        "workers at most": fleet.most,
        "workers at the end": len(fleet.running),
        "calls": sum(calls.values()),
        "repeated calls": sum(calls.values()) - len(calls),
        "calls at once": most_at_once(bus),
        "% of slots at most": round(100 * fleet.saturation_max),
        "seconds": round(time.monotonic() - began),
    }
    for name, value in figures.items():
        say(f"{name:20} {value}")
    assert len(terminals) == figures["outcomes"] == count
    assert figures["repeated calls"] == 0
    assert calls.keys() == {f"r-{n}" for n in range(count)}
    assert figures["workers at most"] == WORKERS_MAX
    assert figures["workers at the end"] == 1
    assert figures["calls at once"] <= WORKERS_MAX * ALLOWED
    assert fleet.saturation_max <= 1
    assert set(codes) == {0}
    return figures


if __name__ == "__main__":
    asyncio.run(main(Console(highlight=False, soft_wrap=True).print))
