"""A comparison set up from the settings, and run to its end or until Ctrl-C."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from answerbus.client.bus import Bus
from answerbus.compared import Compared
from answerbus.toolset_card import ToolsetCard
from answerbus.topics import COMPARISONS
from services.command_line import bus_of, stderr
from services.commands.long_task import progress as progress_bar
from services.commands.long_task import stopping
from services.commands.topics import applied
from services.operators.adapters import comparing
from services.operators.adapters.asking_again import Asker
from services.operators.adapters.comparing import ComparisonProgress
from services.operators.adapters.judging import Judge
from services.operators.comparisons.evaluations import AskedProfile, call_span, evaluations
from services.operators.comparisons.purse import Purse
from services.operators.comparisons.sample import OutcomeSample
from services.settings import plugins
from services.settings.profiles import Profile
from services.settings.secrets import mask_of
from services.settings.settings import Settings, SetUpError, TelemetrySettings
from services.telemetry.exporter import evaluations_of
from services.tools.caller import cards
from services.worker.adapters import backends
from services.worker.adapters.agents import known_agents
from services.worker.adapters.building import BackendContext
from services.worker.adapters.clock import SystemClock
from services.worker.adapters.costly_work.child_process import ChildProcess
from services.worker.adapters.kafka.prompt_secret import prompt_secret
from services.worker.core.run.known_tools import KnownTools
from services.worker.limits.slots import Slots
from services.worker.planning.planner import Planner

OnCompared = Callable[[Compared], None]
CUT = "Kafka may have deleted outcomes since then (retention): only what is kept was drawn from."


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be compared: `since_ms` is the time of the oldest outcome."""

    name: str
    profile: str
    judge: str | None
    limit_micro_usd: int
    since_ms: int
    at_once: int


@dataclass(frozen=True, slots=True)
class EndedComparison:
    """What came of it; `is_stopped` by Ctrl-C."""

    progress: ComparisonProgress
    is_stopped: bool


async def run(settings: Settings, order: Order, sample: OutcomeSample) -> EndedComparison:
    """Raises SetUpError where nothing can be compared, and BusUnavailable."""
    bus = bus_of(settings.kafka)
    async with _asker(settings, bus, order) as asker:
        with stderr().status("reading"):
            is_cut = await comparing.drawn(bus, sample, order.since_ms)
        if is_cut:
            stderr().print(CUT, style="yellow")
        if not len(sample):
            raise SetUpError(
                "No outcome of this time can be compared: give an earlier --since (the topics keep "
                "answers for 7 days by default), or another --contract."
            )
        if not await bus.present(COMPARISONS):  # to look at one takes more rights than to use it
            await applied(settings.kafka, (COMPARISONS,), dry_run=False)
        async with _evaluating(settings.telemetry, asker, order.name) as evaluated:
            return await _compared(bus, sample, asker, order, evaluated)


async def _compared(
    bus: Bus, sample: OutcomeSample, asker: Asker, order: Order, evaluated: OnCompared
) -> EndedComparison:
    with stopping() as stop, progress_bar("asking", len(sample)) as advance:

        def on_asked(compared: Compared) -> None:
            advance(1)
            evaluated(compared)

        found = await comparing.compare(
            *(bus, sample, asker, order.name),
            judge=Judge(asker, order.judge) if order.judge else None,
            at_once=order.at_once,
            stop=stop,
            on_asked=on_asked,
        )
        return EndedComparison(found, stop.is_set())


@asynccontextmanager
async def _evaluating(
    settings: TelemetrySettings, asker: Asker, comparison: str
) -> AsyncIterator[OnCompared]:
    """Sends what is found of each answer to a collector, if there is one. Raises SetUpError."""
    exporter = evaluations_of(settings, comparison)
    if exporter is None:
        yield lambda _: None
        return
    facts = asker.planner.backends[asker.profile].facts
    asked = AskedProfile(facts.provider, facts.model)
    try:
        yield lambda found: exporter.evaluated(call_span(found, asked), evaluations(found))
    finally:
        await asyncio.to_thread(exporter.close)


@asynccontextmanager
async def _asker(settings: Settings, bus: Bus, order: Order) -> AsyncIterator[Asker]:
    """A planner as a worker has it, with these profiles alone. Raises SetUpError."""
    names = [order.profile, *([order.judge] if order.judge else [])]
    profiles = {name: _alone(settings, name) for name in names}
    clock, costly_work = SystemClock(), ChildProcess()
    context = BackendContext(clock, mask_of(settings), costly_work)
    built, advice = await backends.started(profiles, context)
    try:
        for name in profiles:
            if built[name].facts.tariff is None:
                raise SetUpError(
                    f"The profile {name!r} has no price, so that --budget-usd cannot hold: "
                    f"set `profiles.{name}.price`; zeros for a model of your own."
                )
        for sentence in advice:
            stderr().print(sentence, style="yellow", markup=False)
        agents, tools = known_agents(settings.agents), KnownTools()
        for card in await cards(bus) if len(agents) else ():
            if isinstance(card, ToolsetCard):
                tools.take(card)
        planner = Planner(
            *(built, plugins.registry(), await prompt_secret(settings)),
            *(agents, tools.tools, costly_work),
        )
        purse = Purse(order.limit_micro_usd)
        yield Asker(planner, order.profile, purse, Slots(order.at_once), clock)
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
