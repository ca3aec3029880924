"""Audits what is in the topics against the promises G1 to G11, those of runs, and T1.

    python -m tests.chaos.auditor --bootstrap HOST:PORT --prefix answerbus --journal calls.jsonl

It knows nothing of our code.

Exit codes: 0 all promises hold, 1 some do not (each is printed), 2 wrong usage, 3 nothing could be
audited.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from tests.chaos.audit import (
    accounts,
    calls,
    chunks,
    conservation,
    equal_calls,
    order,
    run_figures,
    spends,
    steps,
    terminals,
    tool_calls,
    traces,
    trees,
    typed,
)
from tests.chaos.audit.history import History, Violation
from tests.chaos.audit.reading import UnreadableError, read_history

CHECKS: Sequence[Callable[[History], Iterable[Violation]]] = (
    typed.check,
    conservation.check,
    terminals.check,
    spends.check,
    accounts.check,
    calls.check,
    order.check,
    chunks.check,
    steps.check,
    tool_calls.check,
    equal_calls.check,
    trees.check,
    traces.check,
)

app = typer.Typer(add_completion=False)


def audit(history: History) -> list[Violation]:
    """Every promise that does not hold, by its number."""
    found = [violation for check in CHECKS for violation in check(history)]
    return sorted(found, key=lambda v: (v.promise[0], int(v.promise[1:]), v.about))


def summary(history: History) -> str:
    """How much was looked at, in one line."""
    outcomes = [attempts[0].body["outcome"] for attempts in history.attempts.values()]
    return (
        f"{len(history.arrivals)} records of {len(history.accepted)} requests, "
        f"{len(history.terminals)} terminals, "
        f"{len(history.place_dead_letters)} dead letters about records, "
        f"{len(history.copies)} forwarded, {len(outcomes)} attempts "
        f"({outcomes.count('unknown')} unknown), {len(history.calls)} calls"
        f"{run_figures.summary(history)}"
    )


@app.command()
def main(
    *,
    bootstrap: Annotated[str, typer.Option(help="host:port of a broker")],
    prefix: Annotated[str, typer.Option(help="the prefix of the topics")],
    journal: Annotated[Path, typer.Option(help="the file in which the provider notes its calls")],
    deeds: Annotated[Path | None, typer.Option(help="the file in which tools note theirs")] = None,
    compacted: Annotated[
        bool, typer.Option(help="parts of the ledger may have been compacted away")
    ] = False,
) -> None:
    """Audit what is in the topics now; all requests must have ended, all workers have stopped."""
    try:
        history = read_history(bootstrap, prefix, journal, is_whole=not compacted, deeds=deeds)
    except UnreadableError as reason:
        typer.echo(f"Nothing was audited: {reason}", err=True)
        raise typer.Exit(3) from None
    violations = audit(history)
    for violation in violations:
        typer.echo(violation)
    typer.echo(f"{summary(history)}: {len(violations)} violations")
    raise typer.Exit(1 if violations else 0)


if __name__ == "__main__":
    app()
