"""The command `python -m tests.simulation`: thousands of histories, or one with its timeline.

    python -m tests.simulation --histories 10000 --seed 0 --processes 2
    python -m tests.simulation --seed 4711

Exit codes: 0 every promise held in every history, 1 some did not, 2 wrong usage.
"""

import gc
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import islice
from multiprocessing import get_context
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.simulation.judge import Verdict, judge, summary
from tests.simulation.transitions import never_met
from tests.unit.worker.lane.noted import Pair

COLLECT_EVERY = 20_000  # new objects
CHUNK = 16  # histories that a process takes at a time
TIMELINES_MAX = 1  # printed in full; the others can be had by their seeds
COMPLAINTS_MAX = 10

Summary = tuple[int, bool, frozenset[Pair]]

app = typer.Typer(add_completion=False)


@app.command()
def main(
    *,
    seed: Annotated[int, typer.Option(help="the first seed; alone, the one to show")] = 0,
    histories: Annotated[int | None, typer.Option(min=1, help="how many seeds")] = None,
    processes: Annotated[int, typer.Option(min=1)] = 1,
    runs: Annotated[bool, typer.Option("--runs", help="runs of agents among the requests")] = False,
    next_rebalance: Annotated[
        bool, typer.Option("--next-rebalance", help="a group by KIP-848")
    ] = False,
) -> None:
    """Run histories of faults against the real lanes, and look whether every promise holds."""
    console = Console(highlight=False, soft_wrap=True)
    judged = partial(judge, runs=runs, next_rebalance=next_rebalance)
    if histories is None:
        _show(judged(seed), console)
        return
    began = time.monotonic()
    seeds = range(seed, seed + histories)
    failing: list[int] = []
    met: set[Pair] = set()
    with (
        _verdicts(
            partial(summary, runs=runs, next_rebalance=next_rebalance), seeds, processes
        ) as verdicts,
        _progress(console, histories) as progress,
    ):
        for number, (text, fine, pairs) in enumerate(verdicts, start=1):
            met |= pairs
            if not fine:
                failing.append(text)
                progress.console.print(f"seed {text} FAILED", style="red")
            rate = number / (time.monotonic() - began)
            progress.update(progress.task_ids[0], completed=number, rate=f"{rate:.0f}/s")
    took_s = time.monotonic() - began
    for failed in islice(sorted(failing), TIMELINES_MAX):
        _report(judged(failed), console)
    console.print(
        f"{histories} histories, seeds {seeds[0]} to {seeds[-1]}, in {took_s:.0f} s "
        f"({histories / took_s:.1f}/s): {len(failing)} failed"
    )
    for line in never_met(met):
        console.print(line, markup=False)
    if failing:
        console.print(f"failing seeds: {' '.join(map(str, sorted(failing)))}")
        console.print("one of them again: python -m tests.simulation --seed N")
        raise typer.Exit(1)


@contextmanager
def _verdicts(
    reported: Callable[[int], Summary], seeds: range, processes: int
) -> Iterator[Iterable[Summary]]:
    if processes == 1:
        yield map(reported, seeds)
        return
    # A function of this module could not be found by the new process: it has another `__main__`.
    collect_rarely = partial(gc.set_threshold, COLLECT_EVERY)
    context = get_context("spawn")
    with ProcessPoolExecutor(processes, context, initializer=collect_rarely) as pool:
        try:
            yield pool.map(reported, seeds, chunksize=CHUNK)
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
            raise


def _progress(console: Console, total: int) -> Progress:
    progress = Progress(
        TextColumn("histories"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=console,
    )
    progress.add_task("histories", total=total, rate="")
    return progress


def _show(verdict: Verdict, console: Console) -> None:
    _report(verdict, console)
    if not verdict.is_fine:
        raise typer.Exit(1)


def _report(verdict: Verdict, console: Console) -> None:
    console.print(str(verdict.timeline), markup=False)
    for complaint in verdict.complaints[:COMPLAINTS_MAX]:
        console.print(complaint, style="red", markup=False)
    message = "every promise held" if verdict.is_fine else f"{len(verdict.complaints)} complaints"
    console.print(f"seed {verdict.seed}: {message}")


if __name__ == "__main__":
    app()
