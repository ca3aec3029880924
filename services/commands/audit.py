"""`answerbus audit verify`: checks that attempts, ledger and outcomes agree."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from answerbus.topics import STEPS
from services.command_line import AsJson, Config, bus_of, stderr, stdout
from services.commands.anchoring import anchor
from services.commands.private_records import hidden_runs
from services.operators.adapters.verify import verify as verify_topics
from services.operators.audit.findings import MEANINGS, AuditFinding
from services.operators.audit.verified import Verified
from services.settings.settings import KafkaSettings, from_environment
from services.text.counted import count_text
from services.text.escaping import json_lines, plain_line

EXIT_BROKEN = 1
BREAKS_SHOWN_MAX = 20

app = typer.Typer(help="Verify what the topics say was spent.", no_args_is_help=True)
app.command()(anchor)

Workflow = Annotated[
    str | None, typer.Option("--workflow", metavar="ID", help="This workflow alone.")
]


@app.command()
def verify(*, workflow: Workflow = None, as_json: AsJson = False, config: Config = None) -> None:
    """Recompute the chains of attempts and of steps, and hold them against the other topics.

    Exit code 0: all is whole; 1: something is not, and the first break of each account is named,
    or there are runs, and no right to read their steps.
    """
    whole = from_environment(config)
    settings, account_memory = whole.kafka, timedelta(seconds=whole.accounts.remember_s)
    found, hidden = asyncio.run(_verified(settings, workflow, account_memory))
    if as_json:
        data = as_data(found, settings.topic_prefix)
        typer.echo(json_lines({**data, "whole": data["whole"] and hidden is None}))
    else:
        console = stdout()
        for line in lines(found, settings.topic_prefix):
            console.print(line)
    if hidden:
        stderr().print(hidden, style="red", markup=False)
    if found.breaks or hidden:
        raise typer.Exit(EXIT_BROKEN)
    if workflow is not None and not found.attempts:
        message = f"No attempt of the workflow {workflow} is kept: see that its id is right."
        stderr().print(plain_line(message), style="yellow", markup=False)


async def _verified(
    settings: KafkaSettings, workflow: str | None, account_memory: timedelta
) -> tuple[Verified, str | None]:
    """The verdict, and which right to the steps is missing, if that is why none was there."""
    columns = (TextColumn("reading"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console, bus = stderr(), bus_of(settings)
    with Progress(
        *columns, console=console, disable=not console.is_terminal, transient=True
    ) as bar:
        task = bar.add_task("", total=None)
        found = await verify_topics(
            bus,
            workflow,
            lambda read, total: bar.update(task, completed=read, total=total),
            account_memory,
        )
    others = [one for one in found.breaks if one.kind != "no_step"]
    if others == found.breaks or not (hidden := await hidden_runs(bus, (STEPS,), "auditor")):
        return found, None
    found.breaks = others
    return found, hidden


def lines(found: Verified, prefix: str) -> list[Text]:
    counts = [f"{count_text(found.attempts, 'attempt')} of {count_text(found.accounts, 'account')}"]
    if found.runs:
        counts.append(f"{count_text(found.steps, 'step')} of {count_text(found.runs, 'run')}")
    if found.begun_in_the_middle:
        counts.append(f"{found.begun_in_the_middle:,} begin in the middle (retention)")
    if found.without_ledger:
        counts.append(f"{found.without_ledger:,} are no longer in the ledger")
    if found.in_flight:
        counts.append(f"{count_text(found.in_flight, 'call')} in flight")
    if found.passed_by:
        counts.append(f"skipped {count_text(len(found.passed_by), 'unreadable private record')}")
    message = "; ".join(counts)
    doubts = [plain_line(f"approval: {why}") for why in found.doubtful.values()]
    doubtful = [Text(why, "yellow") for why in doubts[:BREAKS_SHOWN_MAX]]
    if len(doubts) > BREAKS_SHOWN_MAX:
        doubtful.append(Text(f"and {len(doubts) - BREAKS_SHOWN_MAX:,} more approvals (--json)"))
    if not found.breaks:
        return [Text.assemble(("whole", "green"), f": {message}"), *doubtful]
    places = count_text(len(found.breaks), "place")
    texts = [Text.assemble(("broken", "bold red"), f" in {places}: {message}")]
    for number, one in enumerate(found.breaks[:BREAKS_SHOWN_MAX], start=1):
        texts += _words(number, one, prefix)
    if (more := len(found.breaks) - BREAKS_SHOWN_MAX) > 0:
        texts.append(Text(f"and {more:,} more (--json lists them all)"))
    return [*texts, *doubtful]


def as_data(found: Verified, prefix: str) -> Mapping[str, object]:
    return {
        "whole": not found.breaks,
        "attempts": found.attempts,
        "accounts": found.accounts,
        **({"steps": found.steps, "runs": found.runs} if found.runs else {}),
        "begun_in_the_middle": found.begun_in_the_middle,
        "without_ledger": found.without_ledger,
        "in_flight": found.in_flight,
        "breaks": [
            {
                "kind": one.kind,
                "meaning": MEANINGS[one.kind],
                "account_id": one.account_id,
                "event_id": one.event_id,
                "topic": one.place.topic.full_name(prefix),
                "partition": one.place.partition,
                "offset": one.place.offset,
                "expected": one.expected,
            }
            for one in found.breaks
        ],
        **({"doubtful_approvals": [*found.doubtful.values()]} if found.doubtful else {}),
        **({"passed_by": _passed_by(found, prefix)} if found.passed_by else {}),
    }


def _passed_by(found: Verified, prefix: str) -> list[Mapping[str, object]]:
    return [
        {
            "topic": place.topic.full_name(prefix),
            "partition": place.partition,
            "offset": place.offset,
            **skipped.model_dump(mode="json", include={"by", "reason", "problem", "at"}),
        }
        for place, skipped in found.passed_by.items()
    ]


def _words(number: int, one: AuditFinding, prefix: str) -> list[Text]:
    place = one.place
    named = (f"account {one.account_id}" if one.account_id else None, one.event_id)
    whose = ", ".join(plain_line(name) for name in named if name)
    topic = place.topic.full_name(prefix)
    return [
        Text.assemble(f"{number}. ", (MEANINGS[one.kind], "bold"), f": {whose}" if whose else ""),
        Text(f"   at {topic}, partition {place.partition}, offset {place.offset}", "dim"),
        Text(f"   expected {plain_line(one.expected)}"),
    ]
