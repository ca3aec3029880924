"""What a consumer's background tasks end of, a worker survives: it joins with another consumer."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.request import urlopen

import pytest
from aiokafka.consumer.fetcher import Fetcher
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.errors import IllegalStateError

from services.settings.secrets import mask_of
from services.settings.settings import SettingsFile, load
from services.worker import main
from tests.integration.bus import ANSWERED, Bus, request

pytestmark = pytest.mark.kafka

LIMIT_S = 90.0
STUCK_AFTER_S = 3.0


@asynccontextmanager
async def working(bus: Bus, caplog: pytest.LogCaptureFixture) -> AsyncIterator[str]:
    """A worker in this process, with the address of its health."""
    caplog.set_level("INFO")
    config = bus.config([{"reply": ANSWERED}], worker={"stuck_after_s": STUCK_AFTER_S})
    settings = load(config, {})
    task = asyncio.create_task(main.run(settings, SettingsFile(config), mask_of(settings)))
    try:
        async with asyncio.timeout(LIMIT_S):
            while not (body := [m for m in caplog.messages if "health at " in m]):
                await asyncio.sleep(0.05)
        yield body[0].rpartition("health at ")[2]
    finally:
        if not task.done():
            os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(LIMIT_S):
            await task


async def health(address: str) -> dict[str, Any]:
    def ask() -> bytes:
        try:
            with urlopen(address + "/ready", timeout=5) as response:
                return bytes(response.read())
        except OSError as error:
            return bytes(error.read())  # type: ignore[attr-defined]  # it is a 503

    found: dict[str, Any] = json.loads(await asyncio.to_thread(ask))
    return found


async def until_ready(address: str, *, ready: bool) -> dict[str, Any]:
    async with asyncio.timeout(LIMIT_S):
        while True:
            body = await health(address)
            if body["ready"] is ready and (not ready or body["lanes"]):
                return body
            await asyncio.sleep(0.1)


async def published_until_red(bus: Bus, address: str) -> tuple[dict[str, Any], list[str]]:
    """Publish until the worker is not ready: what was on its way at the fault may still arrive."""
    names: list[str] = []
    async with asyncio.timeout(LIMIT_S):
        while (body := await health(address))["ready"] or not body["lanes"]:
            some = [f"r-{len(names) + n}" for n in range(8)]
            await bus.publish([request(name, f"order-{name}") for name in some])
            names += some
            await asyncio.sleep(1)
    return body, names


def fails(*_: Any) -> Any:
    raise IllegalStateError("a bug of the client")


def end_of_fetching(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    real = Fetcher._get_actions_per_node
    monkeypatch.setattr(Fetcher, "_get_actions_per_node", fails)
    return lambda: monkeypatch.setattr(Fetcher, "_get_actions_per_node", real)


def end_of_coordination(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    real = GroupCoordinator._maybe_do_autocommit

    async def breaks(*_: Any) -> None:
        raise ValueError("a bug of the client")

    monkeypatch.setattr(GroupCoordinator, "_maybe_do_autocommit", breaks)
    for task in asyncio.all_tasks():  # the routine sleeps until something happens
        if "_heartbeat_routine" in repr(task.get_coro()):
            task.cancel()
    return lambda: monkeypatch.setattr(GroupCoordinator, "_maybe_do_autocommit", real)


def cancelled(routine: str) -> Callable[[pytest.MonkeyPatch], Callable[[], None]]:
    def cancel(_: pytest.MonkeyPatch) -> Callable[[], None]:
        for task in asyncio.all_tasks():
            if routine in repr(task.get_coro()):
                task.cancel()
        return lambda: None

    return cancel


FAULTS = {
    "the fetcher breaks": end_of_fetching,
    "the coordination breaks": end_of_coordination,
    "the fetcher is cancelled": cancelled("_fetch_requests_routine"),
    "the coordination is cancelled": cancelled("_coordination_routine"),
    "the loop of polls is cancelled": cancelled("_run_consume_loop"),
}


ALL_FAULTS = [
    pytest.param(fault, marks=[pytest.mark.long] if fault.endswith("cancelled") else [])
    for fault in FAULTS
]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("fault", ALL_FAULTS)
async def test_a_task_that_has_ended_is_reported_and_replaced(
    fault: str, bus: Bus, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with working(bus, caplog) as address:
        await until_ready(address, ready=True)
        mend = FAULTS[fault](monkeypatch)
        red, names = await published_until_red(bus, address)
        mend()
        await until_ready(address, ready=True)
        terminals = await bus.terminals(len(names))

    texts = [*red["reasons"], *red["stuck"].values()]
    assert texts
    assert not any(why.endswith(": ") for why in texts)
    assert sorted(t["request_id"] for t in terminals) == sorted(names)
    assert any("group consumer replaced" in message for message in caplog.messages)
