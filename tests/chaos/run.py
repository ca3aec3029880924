"""Chaos on a real Kafka, from a seed: workers and broker die, freeze and come back under load.

    python -m tests.chaos.run --seed 7 --requests 1000 --workflows 100

Exit codes: 0 every request ended and the auditor found nothing, 1 otherwise, 2 wrong usage, 3 there
is not a broker to be had.
"""

import json
import random
import signal
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from infra.kafka.cluster import SIZE
from infra.setup_error import SetupError
from tests.chaos.audit.reading import UnreadableError
from tests.chaos.chaos import Chaos, Outcome, Size

TOOL_SERVERS = 2
RUNS_BESIDE = 0.02  # of the requests of a hostile run: for strangers to speak for their tools
CALM_S = 40.0  # of a hostile run

app = typer.Typer(add_completion=False)


@app.command()
def main(
    *,
    seed: Annotated[int | None, typer.Option(help="the same seed, the same run")] = None,
    requests: Annotated[int, typer.Option(min=1)] = 10_000,
    workflows: Annotated[int, typer.Option(min=1)] = 1_000,
    workers: Annotated[int, typer.Option(min=1)] = 3,
    brokers: Annotated[
        int | None, typer.Option(min=1, help="3 (by default if hostile): one may be lost")
    ] = None,
    hostile: Annotated[
        bool, typer.Option("--hostile", help="garbage batches, clocks that jump, rights that go")
    ] = False,
    runs: Annotated[
        bool, typer.Option("--runs", help="all requests are runs of an agent, with tool servers")
    ] = False,
    dies: Annotated[
        int, typer.Option(min=0, help="of so many calls that may run once, one kills its server")
    ] = 0,
    next_rebalance: Annotated[
        bool, typer.Option("--next-rebalance", help="workers read by the prototype on KIP-848")
    ] = False,
    window: Annotated[float | None, typer.Option(help="seconds of faults")] = None,
    seconds: Annotated[float, typer.Option(help="give up after this many")] = 1_200,
    keep: Annotated[Path | None, typer.Option(help="an empty folder for data and logs")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print the outcome as JSON")] = False,
) -> None:
    """Publish, disturb, wait for the end, audit."""
    if hostile and next_rebalance:
        raise typer.BadParameter("the prototype knows no passwords, and stops before garbage")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # leave no process behind
    chosen = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(f"[bold]seed {chosen}[/]: {requests} requests of {workflows} workflows")
    count = brokers or (SIZE if hostile else 1)
    size = Size(
        requests=requests,
        workflows=workflows,
        workers=workers,
        window_s=window or _window_s(requests, hostile=hostile, runs=runs),
        limit_s=seconds,
        brokers=count,
        hostile=hostile,
        calm_s=CALM_S if hostile and not runs else 0.0,
        tool_servers=TOOL_SERVERS if runs or hostile else 0,
        dies_one_in=dies,
        runs=1.0 if runs else RUNS_BESIDE if hostile else 0.0,
        next_rebalance=next_rebalance,
    )
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        kept = keep or Path(folder)
        kept.mkdir(parents=True, exist_ok=True)
        try:
            outcome = Chaos(chosen, size, kept, console).run()
        except SetupError as reason:
            console.print(f"There is no broker: {reason}", style="red", markup=False)
            raise typer.Exit(3) from None
        except UnreadableError as reason:
            console.print(f"Nothing was audited: {reason}", style="red", markup=False)
            raise typer.Exit(1) from None
    if as_json:
        typer.echo(json.dumps(outcome.as_json()))
    else:
        _report(outcome, console)
    raise typer.Exit(0 if outcome.is_fine else 1)


def _window_s(requests: int, *, hostile: bool, runs: bool) -> float:
    """How long a machine of two cores needs for so many, and not less than all faults need."""
    if runs:
        return max(90.0 if hostile else 40.0, requests / 12)
    return max(75.0, requests / 20) if hostile else max(20.0, requests / 50)


def _report(outcome: Outcome, console: Console) -> None:
    for title, lines in outcome.complaints().items():
        for line in lines:
            console.print(f"{title}: {line}", markup=False)
    console.print(outcome.summary, markup=False)
    verdict = "[green]all promises hold[/]" if outcome.is_fine else "[red]FAILED[/]"
    console.print(f"seed {outcome.seed}: {verdict} after {outcome.took_s:.0f} s")


if __name__ == "__main__":
    app()
