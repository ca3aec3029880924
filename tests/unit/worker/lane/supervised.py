"""A worker of several lanes that is started again whenever it ends, on virtual time."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from answerbus.topics import DEAD_LETTERS, LEDGER
from services.worker.core.attempt.reply import Reply
from services.worker.lane.state.machine import State
from tests.unit.worker.builders import answered, workflow_of
from tests.unit.worker.lane.fakes import Broker
from tests.unit.worker.lane.stage import now
from tests.unit.worker.lane.world import (
    FakeProvider,
    Worker,
    audit,
    context,
    end_at_once,
    events,
    publish,
    terminals,
    until,
)

RESTART_S = 1.0
FOREVER_S = 100_000.0


class Supervised:
    """Requests named `poison…` end the worker `after_s` after their call began."""

    def __init__(self, partitions: int = 1, call_s: float = 2.0, after_s: float = 0.5) -> None:
        self.partitions, self.call_s, self.after_s = partitions, call_s, after_s
        self.broker, self.provider = Broker(), FakeProvider(self._play)
        self.names: dict[str, int] = {}
        self.crashes: list[float] = []
        self.crash = asyncio.Event()
        self._start()
        self._supervising = asyncio.create_task(self._supervise())

    def publish(self, name: str, partition: int = 0, number: int = 0, **more: Any) -> None:
        publish(self.broker, name, workflow_of(partition, number), **more)
        self.names[name] = partition

    def ended(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for partition in range(self.partitions):
            found |= terminals(self.broker, partition)
        return found

    def causes(self) -> dict[str, str]:
        dead_letters = (
            dead_letter
            for partition in range(self.partitions)
            for dead_letter in events(self.broker, DEAD_LETTERS, partition=partition)
        )
        return {str(e["request_id"]): e["cause"]["kind"] for e in dead_letters}

    async def called_again(self, calls: int = 1) -> None:
        """Wait for so many more calls, or the end."""
        least = len(self.provider.calls) + calls
        await until(
            lambda: len(self.provider.calls) >= least or self.ended().keys() >= self.names.keys(),
            limit_s=300,
        )

    async def all_done(self, limit_s: float = 3_600.0) -> None:
        await until(lambda: self.ended().keys() >= self.names.keys(), limit_s, look_s=1.0)

    async def end(self, limit_s: float = 3_600.0) -> None:
        """Everything is answered but what is poison, and all of it is right."""
        await self.all_done(limit_s)
        self._supervising.cancel()
        await self.worker.drain()
        poison = {name: "crashed_worker" for name in self.names if name.startswith("poison")}
        assert self.causes() == poison
        for partition in range(self.partitions):
            calls = [call for call in self.provider.calls if self.names[call[0]] == partition]
            audit(self.broker, FakeProvider(calls=calls), partition)

    @property
    def open(self) -> bool:
        return len(self.worker.membership.lifecycles) == self.partitions and all(
            lifecycle.lane.state is State.OPEN
            for lifecycle in self.worker.membership.lifecycles.values()
        )

    def _start(self) -> None:
        self.worker = Worker(self.broker, context(self.provider, f"worker-{len(self.crashes)}"))
        self.worker.assign(*range(self.partitions))

    async def _supervise(self) -> None:
        while True:
            await self.crash.wait()
            self.crash.clear()
            self.crashes.append(now())
            await self.worker.crash()
            await asyncio.sleep(RESTART_S)
            self._start()

    def _play(self, request_id: str, _: int) -> tuple[float, Reply]:
        if not request_id.startswith("poison"):
            return self.call_s, answered()
        asyncio.get_running_loop().call_later(self.after_s, self.crash.set)
        return FOREVER_S, answered()


@contextmanager
def ends_in(
    patched: Any, name: str, is_poison: Callable[..., bool], rig: list[Supervised]
) -> Iterator[None]:
    """A function that ends the process: nothing after it is done, in any lane."""
    original = getattr(patched, name)

    def ending_its_process(*arguments: Any, **more: Any) -> Any:
        if is_poison(*arguments):
            for lifecycle in rig[0].worker.membership.lifecycles.values():
                end_at_once(lifecycle)
            rig[0].crash.set()
            raise asyncio.CancelledError
        return original(*arguments, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(patched, name, ending_its_process)
        yield


def lane_record(broker: Broker, partition: int = 0) -> dict[str, Any]:
    return [e for e in events(broker, LEDGER, partition=partition) if e["kind"] == "lane"][-1]
