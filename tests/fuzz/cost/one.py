"""`python -m tests.fuzz.cost.one TARGET`: one search, in a process of its own, as JSON lines."""

import argparse
import json
import random
import signal
import sys

from tests.fuzz.cost.meter import bound_process
from tests.fuzz.cost.search import Found, Search
from tests.fuzz.cost.targets import TARGETS

GRACE_S = 60  # beyond its time: an input that takes longer ends the process


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.cost.one")
    parser.add_argument("target")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    bound_process()
    search = Search(TARGETS[chosen.target], random.Random(f"{chosen.seed} {chosen.target}"))
    signal.alarm(int(chosen.seconds) + GRACE_S)
    best = search.run(chosen.seconds, lambda found: show(chosen.target, found, search.inputs))
    show(chosen.target, best, search.inputs)


def show(target: str, found: Found, inputs: int) -> None:
    line = {
        "target": target,
        "inputs": inputs,
        "share": round(found.share, 3),
        "bytes": found.cost.input_bytes,
        "cpu_ms": round(found.cost.cpu_s * 1e3, 2),
        "peak_bytes": found.cost.peak_bytes,
        "recipe": found.recipe,
    }
    sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
