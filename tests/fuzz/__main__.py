"""`python -m tests.fuzz --seconds 60`: each target under the fuzzer for its share of the time.

An input that breaks a promise is written to .run/fuzz, with the command that shows it again.
`--keep` adds the inputs that reach new code to tests/fuzz/corpus, where a quick test runs them.
"""

import argparse
import importlib.util
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.fuzz import session
from tests.fuzz.session import CONSOLE
from tests.fuzz.targets import TARGETS

FUZZER = "atheris"
START_S = 14.0  # of each process, until its first target runs: its code is instrumented
TARGET_S_MIN = 2.0


def main() -> int:
    chosen = arguments()
    if chosen.replay:
        TARGETS[chosen.replay.name.partition("-")[0]].check(chosen.replay.read_bytes())
        CONSOLE.print("it holds")
        return 0
    if importlib.util.find_spec(FUZZER) is None:
        CONSOLE.print(
            f"No fuzzing: {FUZZER} has no build for this Python (a test runs the kept inputs)."
        )
        return int(os.getenv("REQUIRE_FUZZER") == "1")
    names = chosen.only.split(",") if chosen.only else list(TARGETS)
    each_s = (chosen.seconds - START_S) * chosen.processes / len(names)
    seconds = max(TARGET_S_MIN, each_s)
    CONSOLE.print(f"{', '.join(names)}: {seconds:.0f} s each, {chosen.processes} at once")
    with ThreadPoolExecutor(chosen.processes) as pool:
        all_hold = all(list(pool.map(partial(session.fuzz, seconds, chosen.seed), names)))
        if chosen.keep:
            list(pool.map(session.keep, names))
    return int(not all_hold)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of the whole run, about")
    parser.add_argument("--only", help="targets, with commas between them")
    parser.add_argument("--seed", type=int, default=0, help="0: by chance")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--keep", action="store_true", help="add the inputs that reach new code")
    parser.add_argument("--replay", type=Path, help="a file of .run/fuzz: run it once, unfuzzed")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
