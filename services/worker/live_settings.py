"""Puts other settings into force while a worker runs: profiles, agents and limits."""

import asyncio
import logging
from collections.abc import Callable

from answerbus.masking import Mask
from services.settings.settings import Settings, SetUpError
from services.worker.adapters import backends, garbage_collector
from services.worker.adapters.agents import advice_on, known_agents, pins_of
from services.worker.adapters.building import BackendContext
from services.worker.adapters.telemetry.metrics_observer import MetricsObserver
from services.worker.context import Context
from services.worker.core.run.known_tools import KnownTools
from services.worker.plans import Backend

CLOSE_AFTER_S = 60.0  # so much longer than a call may take its backend is kept

_log = logging.getLogger(__name__)


class LiveSettings:
    """The settings in force, and all that is made of them.

    `own` gives this process its part of them. Calls under way end with the backend that they began
    with; requests that wait are planned anew; open runs keep the agents that they began with.
    """

    def __init__(
        self,
        settings: Settings,
        own: Callable[[Settings], Settings],
        context: Context,
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
        agents = known_agents(own.agents)
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
        self._tools.pin(pins_of(own.agents))
        self._set_limits(own)
        self.current = own
        for sentence in (*problems, *own.advice, *advice_on(own)):
            _log.warning(sentence)

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
