"""Profiles that a command asks by itself: planned as a worker plans, outside of any lane."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

from answerbus.client.bus import Bus
from answerbus.compared import Compared
from answerbus.toolset_card import ToolsetCard
from answerbus.topics import COMPARISONS
from services.command_line import stderr
from services.commands.topics import applied
from services.operators.comparisons.evaluations import AskedProfile, call_span, evaluations
from services.settings import plugins
from services.settings.profiles import Profile
from services.settings.secrets import mask_of
from services.settings.settings import KafkaSettings, Settings, SetUpError, TelemetrySettings
from services.telemetry.exporter import evaluations_of
from services.tools.caller import cards
from services.worker.adapters import backends
from services.worker.adapters.agents import known_agents
from services.worker.adapters.building import BackendContext
from services.worker.adapters.clock import SystemClock
from services.worker.adapters.costly_work.child_process import ChildProcess
from services.worker.adapters.kafka.prompt_secret import prompt_secret
from services.worker.adapters.price_watch import watch_prices
from services.worker.core.run.agents import Agents
from services.worker.core.run.known_tools import KnownTools
from services.worker.planning.planner import Planner

OnCompared = Callable[[Compared], None]


@asynccontextmanager
async def planning(
    settings: Settings, bus: Bus, names: Iterable[str], *, has_runs: bool = True
) -> AsyncIterator[Planner]:
    """A planner of these profiles, with limits of their own. Raises SetUpError."""
    profiles = {name: _alone(settings, name) for name in names}
    costly_work = ChildProcess()
    context = BackendContext(SystemClock(), mask_of(settings), costly_work)
    built, advice = await backends.started(profiles, context)
    try:
        for name in profiles:
            if built[name].facts.tariff is None:
                raise SetUpError(
                    f"The profile {name!r} has no price, so that no budget in dollars can hold: "
                    f"set `profiles.{name}.price`; zeros for a model of your own."
                )
        for sentence in advice:
            stderr().print(sentence, style="yellow", markup=False)
        agents = known_agents(settings.agents) if has_runs else Agents()
        tools = KnownTools()
        for card in await cards(bus) if len(agents) else ():
            if isinstance(card, ToolsetCard):
                tools.take(card)
        planner = Planner(
            *(built, plugins.registry(), await prompt_secret(settings)),
            *(agents, tools.tools, costly_work),
        )
        prices = asyncio.create_task(watch_prices(planner, lambda: profiles, context.clock))
        try:
            yield planner
        finally:
            prices.cancel()
    finally:
        await backends.close(built)
        await costly_work.close()


def _alone(settings: Settings, name: str) -> Profile:
    """A profile without fallbacks, which would answer in its place. Raises SetUpError."""
    profile = settings.profiles.get(name)
    if profile is None:
        known = ", ".join(sorted(settings.profiles)) or "none"
        raise SetUpError(f"The settings have no profile {name!r}: there are {known}.")
    return profile.model_copy(update={"then": ()})


@asynccontextmanager
async def evaluating(
    settings: TelemetrySettings, planner: Planner, instance: str
) -> AsyncIterator[OnCompared]:
    """Sends what is found of each answer to a collector, if there is one. Raises SetUpError."""
    exporter = evaluations_of(settings, instance)
    if exporter is None:
        yield lambda _: None
        return
    asked = {
        name: AskedProfile(one.facts.provider, one.facts.model)
        for name, one in planner.backends.items()
    }

    def evaluated(found: Compared) -> None:
        if of := asked.get(found.again.profile or ""):
            exporter.evaluated(call_span(found, of), evaluations(found))

    try:
        yield evaluated
    finally:
        await asyncio.to_thread(exporter.close)


async def with_topic(bus: Bus, kafka: KafkaSettings) -> None:
    """Create the topic of comparisons where it is missing: to look at one takes more rights."""
    if not await bus.present(COMPARISONS):
        await applied(kafka, (COMPARISONS,), dry_run=False)
