"""Storms of requests that go astray, on three brokers.

    python -m tests.storms.run --seeds 200

Exit codes: 0 no violation, 1 some.
"""

import asyncio
import logging
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from tests.storms.proxied import ProxiedCluster
from tests.storms.stage import BROKERS, PARTITIONS, staged

PREFIX = "storm"

app = typer.Typer(add_completion=False)


@app.command()
def main(
    *,
    seeds: Annotated[int, typer.Option(min=1)] = 200,
    first: Annotated[int, typer.Option(help="the first seed")] = 0,
) -> None:
    """Play them, several at once; print what was violated, by seed."""
    logging.disable(logging.CRITICAL)  # nearly every request is complained of
    with (
        tempfile.TemporaryDirectory(prefix="storms-") as folder,
        ProxiedCluster(Path(folder), BROKERS) as cluster,
    ):
        raise typer.Exit(asyncio.run(_play(cluster, Path(folder), range(first, first + seeds))))


async def _play(cluster: ProxiedCluster, folder: Path, seeds: range) -> int:
    began, wrong = time.monotonic(), 0
    async with staged(cluster, PREFIX, folder) as stage:
        for at in range(0, len(seeds), PARTITIONS):
            for seed, complaints in (await stage.play(seeds[at : at + PARTITIONS])).items():
                wrong += bool(complaints)
                for complaint in complaints:
                    typer.echo(f"seed {seed}: {complaint}")
            played = min(at + PARTITIONS, len(seeds))
            took_s = time.monotonic() - began
            typer.echo(f"{took_s:6.0f} s  {played} storms, {wrong} with violations")
        for treated, count in sorted(stage.way_in.treated.items()):
            typer.echo(f"{count:6} {treated}")
    return 1 if wrong else 0


if __name__ == "__main__":
    app()
