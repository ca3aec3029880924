"""The command `python -m tests.simulation.run_histories FIRST COUNT`: histories of runs, by seeds.

Exit code 1 if a promise was broken in one.
"""

import sys
import time

import typer

from tests.simulation.runs import judge


def main(first: int, count: int) -> int:
    """Print what is wrong, and how many were looked at."""
    began = time.monotonic()
    failing = {seed: found for seed in range(first, first + count) if (found := judge(seed))}
    for seed, complaints in failing.items():
        typer.echo(f"seed {seed}: {complaints[0]}")
    took_s = time.monotonic() - began
    typer.echo(f"{count} histories of runs in {took_s:.0f} s: {len(failing)} failed")
    return 1 if failing else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
