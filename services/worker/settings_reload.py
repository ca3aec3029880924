"""Reloads settings while a worker runs: watches their file, and puts changes into force."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from answerbus.masking import Mask
from services.settings.reloadable import digest_of, fixed_differences
from services.settings.settings import Settings, SetUpError
from services.worker.adapters import backends, garbage_collector
from services.worker.adapters.agents import advice_on, known_agents, pins_of
from services.worker.adapters.building import BackendContext
from services.worker.adapters.price_watch import watch_prices
from services.worker.adapters.telemetry.metrics_observer import MetricsObserver
from services.worker.core.run.known_tools import KnownTools
from services.worker.health.watched import SettingsState
from services.worker.lane.context import LaneContext
from services.worker.planning.planner import Backend

CLOSE_AFTER_S = 60.0  # so much longer than a call may take its backend is kept

_log = logging.getLogger(__name__)
LOOK_EVERY_S = 1.0
AGAIN_S = 15.0  # what was refused may be right by now: a key that is there, a server that answers


class ReadSettings(Protocol):
    @property
    def state(self) -> tuple[int, ...]: ...

    def load(self) -> Settings:
        """The current settings. Raises SetUpError."""
        ...


class SettingsMonitor:
    """All or nothing: what cannot be taken whole leaves the settings as they were.

    A file is read when two looks have found the same new state of it, so that one that is still
    written to is not; while `wanted` is set it is read at once. `take` puts settings into force,
    or raises SetUpError and has changed nothing.
    """

    def __init__(
        self,
        file: ReadSettings,
        current: Settings,
        take: Callable[[Settings], Awaitable[None]],
        look_now: asyncio.Event,
        every_s: float = LOOK_EVERY_S,
    ) -> None:
        self.settings_state = SettingsState(digest_of(current))
        self._file, self._current, self._take = file, current, take
        self._every_s = every_s
        self._read: tuple[int, ...] | None = None  # the state that was read last
        self._seen: tuple[int, ...] | None = None
        self._again_at = float("inf")
        self._wanted = look_now

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            found, is_wanted = self._file.state, self._wanted.is_set()
            has_changed = found == self._seen != self._read
            self._seen = found
            if is_wanted or has_changed or loop.time() >= self._again_at:
                self._wanted.clear()
                self._read = found
                await self._look()
                again_s = AGAIN_S if self.settings_state.refused else float("inf")
                self._again_at = loop.time() + again_s
            try:
                async with asyncio.timeout(self._every_s):
                    await self._wanted.wait()
            except TimeoutError:
                pass

    async def _look(self) -> None:
        state = self.settings_state
        try:
            await self._change(self._file.load())
        except SetUpError as error:
            if state.refused != str(error):
                _log.error("settings file rejected, keeping current settings: %s", error)
            state.refused = str(error)
        except Exception as error:
            _log.exception("settings file rejected, keeping current settings")
            state.refused = f"a bug: {type(error).__name__}, see the log"
        else:
            state.refused = None

    async def _change(self, found: Settings) -> None:
        if found == self._current:
            return
        if names := fixed_differences(self._current, found):
            listed = ", ".join(f"`{name}`" for name in names)
            raise SetUpError(
                f"{listed} cannot change while a worker runs, so that nothing of the file was "
                "taken: restart it, or put back what was there."
            )
        await self._take(found)
        self._current = found
        self.settings_state.digest = digest_of(found)
        _log.info("settings reloaded: %s", self.settings_state.digest)


class LiveSettings:
    """The settings in force, and all that is made of them.

    `own` gives this process its part of them. Calls under way end with the backend that they began
    with; requests that wait are planned again; open runs keep the agents that they began with.
    """

    def __init__(
        self,
        settings: Settings,
        own: Callable[[Settings], Settings],
        context: LaneContext,
        shared: BackendContext,
        measures: MetricsObserver,
        tools: KnownTools,
    ) -> None:
        self.current = settings
        self._own, self._context, self._shared = own, context, shared
        self._measures, self._tools = measures, tools
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def mask(self) -> Mask:
        """Over all secrets that the settings lead to, or have led to."""
        return self._shared.mask

    async def take(self, settings: Settings) -> None:
        """Put them into force. Raises SetUpError, and then nothing has changed."""
        own, planner = self._own(settings), self._context.planner
        agents, pins = known_agents(own.agents), pins_of(own.agents)
        if agents and not self._context.runs.has_agents:
            raise SetUpError(
                "This worker was started without agents and reads no cards of tools: restart it to "
                "give it the first one."
            )
        change, problems = await backends.changed(self.current.profiles, own.profiles, self._shared)
        # From here on nothing fails, and nothing is waited for.
        for former in planner.change(change, agents):
            self._close_later(former)
        self._measures.know(own.profiles)
        self._tools.pin(pins)
        self._set_limits(own)
        self.current = own
        for sentence in (*problems, *own.advice, *advice_on(own), *planner.fallback_advice()):
            _log.warning(sentence)

    async def watch_prices(self) -> None:
        """See price_watch."""
        profiles, clock = lambda: self.current.profiles, self._shared.clock
        await watch_prices(self._context.planner, profiles, clock)

    async def stop(self) -> None:
        """Close all backends, former ones too."""
        for task in self._closing:
            task.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)
        await backends.close(self._context.planner.backends)

    def _set_limits(self, settings: Settings) -> None:
        limits, worker = self._context.limits, settings.worker
        limits.max_in_flight = worker.max_in_flight
        limits.held_max = worker.held_max
        limits.lane_requests_max = worker.lane_requests_max
        limits.lane_bytes_max = worker.lane_bytes_max
        limits.handover_s = settings.drain_s
        self._context.slots.set_limit(worker.max_in_flight)
        garbage_collector.set_thresholds(worker.max_in_flight)

    def _close_later(self, former: Backend) -> None:
        closing = asyncio.create_task(_close(former))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)


async def _close(former: Backend) -> None:
    """Once no call can be under way there any more, or at once where the worker ends."""
    try:
        await asyncio.sleep(former.facts.timeout_s + CLOSE_AFTER_S)
    finally:
        await former.provider.close()
