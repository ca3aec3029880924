"""A comparison set up from the settings, and run to its end or until Ctrl-C."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from answerbus.client.bus import Bus
from answerbus.compared import Compared
from services.command_line import bus_of, refuse, stderr
from services.commands.asked_profiles import OnCompared, evaluating, planning, with_topic
from services.commands.long_task import progress as progress_bar
from services.commands.long_task import stopping
from services.console.tasks.comparison_reading import READ_S, ComparisonReader
from services.operators.adapters import comparing
from services.operators.adapters.asking_again import Asker
from services.operators.adapters.comparing import ComparisonProgress
from services.operators.adapters.comparison_writer import CLAIM, claim_name, release_name
from services.operators.adapters.judging import Judge
from services.operators.comparisons.money_budget import MoneyBudget
from services.operators.comparisons.sample import OutcomeSample
from services.settings.settings import Settings, SetUpError
from services.worker.adapters.clock import SystemClock
from services.worker.limits.slots import Slots

CUT = "Kafka may have deleted outcomes since then (retention): only what is kept was drawn from."


@dataclass(frozen=True, slots=True)
class Order:
    """A comparison to make: `since_ms` is the time of the oldest outcome.

    `is_named`: the name is an operator's, who may have used it before.
    """

    name: str
    profile: str
    judge: str | None
    limit_micro_usd: int
    since_ms: int
    at_once: int
    is_named: bool = False


@dataclass(frozen=True, slots=True)
class EndedComparison:
    """The result; `is_stopped` by Ctrl-C."""

    progress: ComparisonProgress
    is_stopped: bool


async def run(settings: Settings, order: Order, sample: OutcomeSample) -> EndedComparison:
    """Raises SetUpError where nothing can be compared, and BusUnavailable."""
    bus = bus_of(settings.kafka)
    if order.is_named:
        await _refuse_known(bus, order.name)
    names = [order.profile, *([order.judge] if order.judge else [])]
    async with planning(settings, bus, names) as planner:
        with stderr().status("reading"):
            is_cut = await comparing.drawn(bus, sample, order.since_ms)
        if is_cut:
            stderr().print(CUT, style="yellow")
        if not len(sample):
            raise SetUpError(
                "No outcome of this time can be compared: give an earlier --since (the topics keep "
                "answers for 7 days by default), or another --contract."
            )
        await with_topic(bus, settings.kafka)
        money, slots = MoneyBudget(order.limit_micro_usd), Slots(order.at_once)
        asker = Asker(planner, order.profile, money, slots, SystemClock())
        async with (
            _with_name(bus, order.name) as progress,
            evaluating(settings.telemetry, planner, order.name) as evaluated,
        ):
            return await _compared(bus, sample, asker, order, evaluated, progress)


@asynccontextmanager
async def _with_name(bus: Bus, name: str) -> AsyncIterator[ComparisonProgress]:
    """A comparison that is to have the name; without a record it gives the name back.

    Raises SetUpError if another has it, BusUnavailable.
    """
    progress = ComparisonProgress()
    if (claim := await claim_name(bus, name)) is None:
        raise SetUpError(
            f"Another comparison {name!r} has begun, and both would be one: give another --name, "
            f"or see it with `answerbus compare --show {name}`. The name of one that was killed "
            f"before its first answer is free {CLAIM.seconds // 3600} h after its start."
        )
    try:
        yield progress
    finally:
        if not progress.folded.asked:
            await release_name(bus, name, claim)


async def made_before(settings: Settings, name: str) -> EndedComparison:
    """A comparison as the topic keeps it. Raises typer.Exit where it keeps none, BusUnavailable."""
    progress = await _read(bus_of(settings.kafka), name)
    if not progress.folded.asked:
        refuse(f"No record of a comparison {name!r} is kept; the topic has 30 days.")
    return EndedComparison(progress, is_stopped=False)


async def _refuse_known(bus: Bus, name: str) -> None:
    """Raises SetUpError: all records of one name are one comparison."""
    if (await _read(bus, name)).folded.asked:
        raise SetUpError(
            f"There is a comparison {name!r} already, and both would be one: give another --name, "
            f"or see it with `answerbus compare --show {name}`."
        )


async def _read(bus: Bus, name: str) -> ComparisonProgress:
    """A comparison as far as the topic keeps it. Raises SetUpError, BusUnavailable."""
    progress = ComparisonProgress()

    def take(compared: Compared, _at_ms: int) -> None:
        progress.folded.take(compared)
        progress.requests += compared.step in {None, 1}

    try:
        await ComparisonReader(bus).read(take, name)
    except TimeoutError:
        raise SetUpError(f"There are more comparisons than {READ_S:g} s suffice to read.") from None
    return progress


async def _compared(
    bus: Bus,
    sample: OutcomeSample,
    asker: Asker,
    order: Order,
    evaluated: OnCompared,
    progress: ComparisonProgress,
) -> EndedComparison:
    with stopping() as stop, progress_bar("asking", len(sample)) as advance:

        def on_asked(compared: Compared) -> None:
            advance(1)
            evaluated(compared)

        await comparing.compare(
            *(bus, sample, asker, order.name, progress),
            judge=Judge(asker, order.judge) if order.judge else None,
            at_once=order.at_once,
            stop=stop,
            on_asked=on_asked,
        )
        return EndedComparison(progress, stop.is_set())
