"""`answerbus compare`: another profile asked what was asked before, without an outcome."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from answerbus.limits import NAME_CHARS_MAX
from services.command_line import EXIT_CTRL_C, AsJson, Config, print_table, stderr, stdout
from services.commands.comparing import EndedComparison, Order, made_before, run
from services.console.figures.comparison_rows import measure_rows, member_rows
from services.console.views.units import usd
from services.operators.adapters.comparing import ComparisonProgress
from services.operators.comparisons.report import (
    MEASURES,
    ComparisonReport,
    Threshold,
    as_data,
    threshold_of,
)
from services.operators.comparisons.sample import OutcomeSample
from services.operators.dead_letters.moment import EXAMPLES, moment_ms
from services.operators.records.money import micro_usd_of
from services.settings.settings import from_environment
from services.text.escaping import json_lines, plain_line

EXIT_BELOW_BAR = 1
SINCE_DEFAULT = "7d"
SAMPLE_DEFAULT, SAMPLE_MAX = 200, 10_000
AT_ONCE_DEFAULT, AT_ONCE_MAX = 4, 64
FIELDS_SHOWN = 20
ENDED_EARLY = "The comparison ended before all of its sample was asked: no bar is met."

Profile = Annotated[
    str | None, typer.Option("--profile", metavar="NAME", help="The profile to ask.")
]
Budget = Annotated[
    str | None,
    typer.Option("--budget-usd", metavar="USD", help="What it may cost in all, as 5.00."),
]
Show = Annotated[
    str | None,
    typer.Option("--show", metavar="NAME", help="Show an earlier comparison, and ask nothing."),
]
Judge = Annotated[
    str | None,
    typer.Option("--judge", metavar="NAME", help="The profile that says which answer is better."),
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="TIME",
        help=f"Outcomes from then on: {EXAMPLES}.",
        show_default=SINCE_DEFAULT,
    ),
]
Size = Annotated[
    int | None,
    typer.Option(
        "--sample",
        min=1,
        max=SAMPLE_MAX,
        help="How many requests to draw.",
        show_default=str(SAMPLE_DEFAULT),
    ),
]
ContractName = Annotated[
    str | None,
    typer.Option("--contract", help="This contract alone, as plan_proposal or plan_proposal.v1."),
]
Bars = Annotated[
    list[str] | None,
    typer.Option(
        "--bar",
        metavar="BOUND",
        help=f"Exit code 1 if missed, such as valid>=0.98; of {', '.join(MEASURES)}. Repeatable.",
    ),
]
AtOnce = Annotated[
    int | None,
    typer.Option(
        "--concurrency",
        min=1,
        max=AT_ONCE_MAX,
        help="How many calls at once.",
        show_default=str(AT_ONCE_DEFAULT),
    ),
]
Name = Annotated[
    str | None,
    typer.Option("--name", help="The comparison's name.", show_default="the profile and the time"),
]


def compare(
    *,
    profile: Profile = None,
    budget: Budget = None,
    show: Show = None,
    judge: Judge = None,
    since: Since = None,
    size: Size = None,
    contract: ContractName = None,
    bar: Bars = None,
    at_once: AtOnce = None,
    name: Name = None,
    as_json: AsJson = False,
    config: Config = None,
) -> None:
    """Ask another profile what was asked before, and compare; exit code 1 if a bar is missed.

    Each request is asked once, and each step of a run after its recorded steps. No tool is called,
    no workflow is charged, and answers go to the topic of comparisons alone.
    """
    bars = [_bar(text) for text in bar or ()]
    if show is not None:
        of_a_new_one = (profile, budget, judge, since, size, contract, at_once, name)
        if any(one is not None for one in of_a_new_one):
            raise typer.BadParameter("--show is for an earlier comparison: only --bar goes with it")
        ended = asyncio.run(made_before(from_environment(config), show))
    elif profile is None or budget is None:
        raise typer.BadParameter("give --profile and --budget-usd, or --show alone")
    else:
        at_once = AT_ONCE_DEFAULT if at_once is None else at_once
        since = SINCE_DEFAULT if since is None else since
        order = _order(profile, budget, judge, since, at_once, name)
        sample = OutcomeSample(SAMPLE_DEFAULT if size is None else size, contract)
        ended = asyncio.run(run(from_environment(config), order, sample))
        show = order.name
    _print(show, ended, bars, as_json=as_json)
    _leave(ended, bars)


def _order(
    profile: str, budget: str, judge: str | None, since: str, at_once: int, name: str | None
) -> Order:
    now_ms = int(time.time() * 1000)
    limit, since_ms = micro_usd_of(budget), moment_ms(since, now_ms)
    if limit is None:
        text = f"{budget!r} is not an amount such as 5.00"
        raise typer.BadParameter(text, param_hint="--budget-usd")
    if since_ms is None or since_ms >= now_ms:
        text = f"{since!r} is not a time such as {EXAMPLES}"
        raise typer.BadParameter(text, param_hint="--since")
    is_named = name is not None
    return Order(_name(name, profile), profile, judge, limit, since_ms, at_once, is_named=is_named)


def _print(name: str, ended: EndedComparison, bars: Sequence[Threshold], *, as_json: bool) -> None:
    report = ended.progress.folded.report()
    for note in notes(ended.progress):
        stderr().print(note, style="yellow", markup=False)
    if as_json:
        data = as_data(report, bars)
        typer.echo(json_lines({"comparison": name, **data, **_left_out(ended.progress)}))
        return
    for table in tables(report, name):
        print_table(stdout(), table)


def _leave(ended: EndedComparison, bars: Sequence[Threshold]) -> None:
    report = ended.progress.folded.report()
    missed = [bar.text for bar in bars if not bar.is_met(report)]
    for text in missed:
        stderr().print(f"The bar {text} is missed.", style="red", markup=False)
    if ended.is_stopped:
        raise typer.Exit(EXIT_CTRL_C)
    is_early = bool(bars) and ended.progress.ended is not None
    if is_early:
        stderr().print(ENDED_EARLY, style="red")
    if missed or is_early or not report.asked:
        raise typer.Exit(EXIT_BELOW_BAR)


def _bar(text: str) -> Threshold:
    found = threshold_of(text)
    if found is None:
        known = ", ".join(MEASURES)
        raise typer.BadParameter(f"{text!r} is not a bound such as valid>=0.98; there are {known}")
    return found


def _name(given: str | None, profile: str) -> str:
    name = given or f"{profile}-{time.strftime('%Y-%m-%d.%H%M%S', time.gmtime())}"
    if not is_name(name):
        raise typer.BadParameter(
            f"a name has letters, digits, dots, dashes and underscores, {NAME_CHARS_MAX} at most",
            param_hint="--name",
        )
    return name


def is_name(text: str) -> bool:
    plain = text.replace(".", "").replace("-", "").replace("_", "")
    return len(text) <= NAME_CHARS_MAX and plain.isascii() and plain.isalnum()


def notes(progress: ComparisonProgress) -> Iterator[str]:
    """The requests that were not asked, and why."""
    for why, count in progress.left_out.most_common():
        yield f"{count:,} of the sample were not asked: {why}."
    if progress.ended is not None:
        yield progress.ended


def _left_out(progress: ComparisonProgress) -> dict[str, object]:
    left_out = {"left_out": dict(progress.left_out), "ended": progress.ended}
    return {"requests": progress.requests, **left_out}


def tables(report: ComparisonReport, name: str) -> Iterator[Table]:
    """Both sides, then the members of answers that agree least."""
    table = Table(box=None, pad_edge=False, header_style="dim", title_justify="left")
    table.add_column(Text(plain_line(name)), style="bold")
    for head in ("recorded", "asked again"):
        table.add_column(head, justify="right", no_wrap=True)
    for row in measure_rows(report):
        table.add_row(row.head, row.recorded, row.again)
    table.caption = f"{report.asked:,} calls, {usd(report.charged_micro_usd)} charged"
    yield table
    if report.fields:
        fields = Table(box=None, pad_edge=False, header_style="dim")
        fields.add_column("member", style="bold", overflow="fold")
        fields.add_column("equal", justify="right", no_wrap=True)
        for member in islice(member_rows(report), FIELDS_SHOWN):
            fields.add_row(Text(plain_line(member.path)), member.equal)
        yield fields
