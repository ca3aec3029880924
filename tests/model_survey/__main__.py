"""The survey of the real local model, through the whole bus; every answer is validated again.

    python -m tests.model_survey                      # what was not asked yet, then the page
    python -m tests.model_survey --only mending --limit 10
    python -m tests.model_survey --only agents        # conversations and tool calls

Rows are kept as JSON lines, so that an interrupted survey goes on where it stopped;
docs/model-survey.md is written from them. Exit codes: 0 all asked and every published answer valid,
1 not so, 2 wrong usage, 3 there is no broker or no model.
"""

import asyncio
import signal
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, aclosing
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from answerbus.client import BusUnavailable
from infra.local_model.report import TerminalReport
from infra.setup_error import SetupError
from tests.corpora import corpora
from tests.model_survey import agents, contracts, mending, page, rows, sample
from tests.model_survey.agent_trials import Trial, trials
from tests.model_survey.asking import Survey, surveying
from tests.model_survey.questions import Question, in_turns
from tests.model_survey.rows import Row

OUT_DEFAULT = Path(".run/model-survey/rows.jsonl")
AGENTS = "agents"  # the part that is no question with one answer; its rows are in a file beside

app = typer.Typer(add_completion=False)
_Asked = TypeVar("_Asked", Question, Trial)


@app.command()
def main(
    *,
    only: Annotated[
        str, typer.Option(help="a part: contracts, inline, mending, again or agents")
    ] = "",
    limit: Annotated[int | None, typer.Option(min=0, help="ask no more than this many")] = None,
    out: Annotated[Path, typer.Option(help="where the rows are added")] = OUT_DEFAULT,
) -> None:
    """Ask what was not asked yet, and write the page."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # leave no process behind
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    questions, tried = ([] if only == AGENTS else _questions()), [*trials()]
    everything = [question for question in questions if only in ("", question.part)]
    agents_out = out.with_name("agents.jsonl")
    wanted = tried if only in ("", AGENTS) else []
    if not everything and not wanted:
        raise typer.BadParameter(f"{only}: there are contracts, inline, mending, again, agents")
    try:
        _ask(_left(everything, rows.read(out))[:limit], out, console)
        _try(_left(wanted, agents.read(agents_out))[:limit], agents_out, console)
    except (SetupError, BusUnavailable) as error:
        console.print(str(error), style="red", markup=False)
        raise typer.Exit(3) from None
    found, found_of_agents = rows.read(out) if questions else [], agents.read(agents_out)
    page.write(found, len(questions), found_of_agents)
    if found:
        console.print(page.summary(found), markup=False)
    is_done = not _left(everything, found) and not _left(wanted, found_of_agents)
    raise typer.Exit(0 if is_done and page.all_published_valid(found) else 1)


def _left(wanted: Sequence[_Asked], known: Sequence[Row | agents.AgentRow]) -> list[_Asked]:
    """What has no row yet."""
    ids = {row.id for row in known}
    return [one for one in wanted if one.id not in ids]


def _questions() -> list[Question]:
    cases = list(corpora().schemas())
    plain = [*contracts.questions(), *sample.questions(cases)]
    return in_turns([*plain, *mending.questions(), *mending.again()])


def _ask(questions: Sequence[Question], out: Path, console: Console) -> None:
    if not questions:
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="survey-") as folder, ExitStack() as running:
        with TerminalReport(console) as report:
            survey = running.enter_context(surveying(Path(folder), report))
        asyncio.run(_follow(survey, questions, out, console))


async def _follow(
    survey: Survey, questions: Sequence[Question], out: Path, console: Console
) -> None:
    with _progress(console, len(questions)) as progress, out.open("a") as lines:
        async with aclosing(survey.ask(questions)) as ended:
            async for row in ended:
                lines.write(rows.as_line(row) + "\n")
                lines.flush()
                progress.update(progress.task_ids[0], advance=1, last=_row_text(row))


def _try(tried: Sequence[Trial], out: Path, console: Console) -> None:
    if not tried:
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="survey-") as folder, ExitStack() as running:
        with TerminalReport(console) as report:
            address = running.enter_context(agents.stack_with_agents(Path(folder), report))
        asyncio.run(_follow_agents(address, tried, out, console))


async def _follow_agents(address: str, tried: Sequence[Trial], out: Path, console: Console) -> None:
    with _progress(console, len(tried)) as progress, out.open("a") as lines:
        async with aclosing(agents.tried(address, tried)) as ended:
            async for row in ended:
                lines.write(agents.as_line(row) + "\n")
                lines.flush()
                last = f"{row.id}: {'worked' if row.worked else 'did not work'}"
                progress.update(progress.task_ids[0], advance=1, last=last)


def _progress(console: Console, total: int) -> Progress:
    progress = Progress(
        TextColumn("questions"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[last]}"),
        console=console,
    )
    progress.add_task("questions", total=total, last="")
    return progress


def _row_text(row: Row) -> str:
    return f"{row.group}: {row.outcome} after {len(row.tries)}"


if __name__ == "__main__":
    app()
