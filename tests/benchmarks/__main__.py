"""The benchmarks: figures as JSON lines, and a table.

    python -m tests.benchmarks --only efficiency --only latency --size small

Broker, stub and contestants run on this machine, one trial after another; docs/benchmarks.md is
written from the lines by `python -m tests.benchmarks.report`. Exit codes: 0 all was measured (met
or not), 1 something could not be measured, 2 wrong usage, 3 there is no broker to be had.
"""

import os
import platform
import signal
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from itertools import product
from pathlib import Path
from subprocess import run
from typing import Annotated

import typer
from rich.console import Console

from infra.setup_error import SetupError
from tests.benchmarks.figures import Figure, as_line, versions
from tests.benchmarks.measurements import (
    added_latency,
    agent,
    backlog,
    budgets,
    console,
    contexts,
    cost,
    efficiency,
    growth,
    kills,
    ledger,
    members,
    profile,
    refusals,
    scaling,
    schemas,
    throughput,
    trees,
)
from tests.benchmarks.rig import Rig
from tests.benchmarks.size import SIZES
from tests.benchmarks.tables import show

MODULES = (
    efficiency,
    profile,
    throughput,
    backlog,
    added_latency,
    kills,
    members,
    refusals,
    ledger,
    scaling,
    growth,
    contexts,
    console,
    schemas,
    agent,
    trees,
    cost,
    budgets,
)
MEASUREMENTS = {module.NAME: module.measure for module in MODULES}
OUT_DEFAULT = Path(".run/benchmarks/figures.jsonl")

app = typer.Typer(add_completion=False)


@app.command()
def main(
    *,
    only: Annotated[
        list[str] | None, typer.Option(help="what to measure; all, if not given")
    ] = None,
    size: Annotated[str, typer.Option(help="small or full")] = "full",
    match: Annotated[str, typer.Option(help="trials with this expression in their names")] = "",
    seed: Annotated[int, typer.Option(help="of the latencies")] = 1,
    version: Annotated[
        list[str] | None, typer.Option(help="one of the history, measured beside this one")
    ] = None,
    tls: Annotated[bool, typer.Option("--tls", help="each once more, with calls over TLS")] = False,
    out: Annotated[Path, typer.Option(help="where the JSON lines are added")] = OUT_DEFAULT,
    keep: Annotated[Path | None, typer.Option(help="an empty folder for data and logs")] = None,
) -> None:
    """Measure, one thing after another."""
    names = _split(only or MEASUREMENTS)
    unknown = [name for name in names if name not in MEASUREMENTS]
    if unknown or size not in SIZES:
        wrong = unknown[0] if unknown else size
        raise typer.BadParameter(f"{wrong}: there are {', '.join(MEASUREMENTS)}; small, full")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # leave no process behind
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    failed = []
    beside = _split(version or ())
    with _folder(keep) as folder:
        try:
            with Rig(folder, seed, console, match, versions=beside) as rig:
                for name, rig.is_tls in product(names, (False, True) if tls else (False,)):
                    over = ", TLS" if rig.is_tls else ""
                    rig.say(f"== {name}, {size}{over}")
                    found = []
                    try:
                        for measured in MEASUREMENTS[name](rig, SIZES[size]):
                            figure = replace(measured, case=measured.case + over)
                            found.append(figure)
                            _add(out, figure, size, seed)
                    except (RuntimeError, OSError, AssertionError, SetupError) as error:
                        console.print_exception()
                        failed.append(f"{name}: {error}")
                    show(console, found)
        except SetupError as reason:
            console.print(f"There is no broker: {reason}", style="red", markup=False)
            raise typer.Exit(3) from None
    for line in failed:
        console.print(f"not measured: {line}", style="red", markup=False)
    raise typer.Exit(1 if failed else 0)


def _split(given: Iterable[str]) -> list[str]:
    """Options may be repeated, and joined by commas."""
    return [name for text in given for name in text.split(",")]


def _add(out: Path, figure: Figure, size: str, seed: int) -> None:
    about = {
        "at": datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="seconds"),
        "size": size,
        "seed": seed,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "commit": _commit(),
        "versions": versions(),
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("a") as lines:
        lines.write(as_line(figure, about) + "\n")


@cache
def _commit() -> str:
    """What was measured; empty outside of a checkout."""
    command = ["git", "describe", "--always", "--dirty"]
    return run(command, capture_output=True, text=True, check=False).stdout.strip()


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        yield Path(folder)


if __name__ == "__main__":
    app()
