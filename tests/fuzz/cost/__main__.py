"""`python -m tests.fuzz.cost --seconds 60`: searches the costliest input of each target.

An input that takes more than its budget twice over is written to .run/fuzz, with the command that
measures it again. `--keep` writes the costliest to tests/fuzz/cost/worst.json, which is a test.
Pages of the console have a program of their own, `python -m tests.fuzz.cost.pages`.
"""

import argparse
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from tests.fuzz.cost import kept
from tests.fuzz.cost.meter import Cost
from tests.fuzz.cost.search import TOO_COSTLY, measured
from tests.fuzz.cost.targets import TARGETS

CONSOLE = Console(markup=False, highlight=False, soft_wrap=True, stderr=True)
WORK = Path(".run/fuzz")
START_S = 3.0  # until a search runs
SEARCH_S_MIN = 2.0


def main() -> int:
    chosen = arguments()
    if chosen.again:
        return again(chosen.again)
    names = chosen.only.split(",") if chosen.only else list(TARGETS)
    rounds = -(-len(names) // chosen.processes)
    seconds = max(SEARCH_S_MIN, chosen.seconds / rounds - START_S)
    CONSOLE.print(f"{', '.join(names)}: {seconds:.0f} s each, {chosen.processes} at once")
    with ThreadPoolExecutor(chosen.processes) as pool:
        found = list(pool.map(partial(search, seconds, chosen.seed), names))
    for line in found:
        if chosen.json:
            sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
    if chosen.keep:
        kept.write([line for line in found if "recipe" in line])
    return int(any(line["share"] > TOO_COSTLY for line in found))


def search(seconds: float, seed: int, name: str) -> dict[str, Any]:
    """The costliest input of a target; it is shown as it grows."""
    began = shown = time.monotonic()
    command = [sys.executable, "-m", "tests.fuzz.cost.one", name]
    command += ["--seconds", str(seconds), "--seed", str(seed)]
    best: dict[str, Any] = {"target": name, "share": float("inf"), "inputs": 0}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8") as process:
        for text in process.stdout or ():
            best = json.loads(text)
            if time.monotonic() - shown > 1:
                shown = time.monotonic()
                CONSOLE.print(f"  {words(best)} …")
    if process.returncode:
        best["share"] = float("inf")
        CONSOLE.print(f"  {name}: ENDED with code {process.returncode}: an input takes too much")
        return best
    CONSOLE.print(f"  {words(best)}, {time.monotonic() - began:.0f} s")
    if best["share"] > TOO_COSTLY:
        path = WORK / f"cost-{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(best, ensure_ascii=False), encoding="utf-8")
        CONSOLE.print(
            f"  {name}: BROKEN, again: {sys.executable} -m tests.fuzz.cost --again {path}"
        )
    return best


def words(line: dict[str, Any]) -> str:
    cost = Cost(line["bytes"], line["cpu_ms"] / 1e3, line["peak_bytes"])
    share, inputs = f"{line['share']:.0%} of its budget", f"{line['inputs']:,} inputs"
    return f"{line['target']}: {share}, {cost.words}, {inputs}"


def again(path: Path) -> int:
    line = json.loads(path.read_text("utf-8"))
    target = TARGETS[line["target"]]
    found = measured(target, line["recipe"], 5)
    if found is None:
        CONSOLE.print("this is no input of its target any more")
        return 0
    CONSOLE.print(f"{target.name}: {found.share:.0%} of its budget, {found.cost.words}")
    return int(found.is_too_costly)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.cost", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of the whole run, about")
    parser.add_argument("--only", help="targets, with commas between them")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="the costliest of each, as JSON lines")
    parser.add_argument("--keep", action="store_true", help="write these to the kept ones")
    parser.add_argument("--again", type=Path, help="a file of .run/fuzz: measure it once more")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
