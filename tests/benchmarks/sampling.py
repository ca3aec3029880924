"""A launcher that runs `answerbus` and notes, every few milliseconds of CPU time, what is running.

    python -m tests.benchmarks.sampling STACKS AFTER_S FOR_S worker --config answerbus.toml

Sampling begins AFTER_S seconds after the start and ends FOR_S later; then the stacks are written,
innermost function first: one JSON line for each that occurred, with the times it was seen.
"""

import json
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from types import FrameType

INTERVAL_S = 0.003  # of CPU time
DEPTH_MAX = 60

Stack = tuple[str, ...]


def start(target: Path, after_s: float, for_s: float) -> None:
    """Sample this process for that long."""
    seen: Counter[Stack] = Counter()
    begin = time.monotonic() + after_s

    def sample(_: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if now < begin:
            return
        if now > begin + for_s:
            signal.setitimer(signal.ITIMER_PROF, 0)
            write()
            return
        stack: list[str] = []
        while frame is not None and len(stack) < DEPTH_MAX:
            code = frame.f_code
            stack.append(f"{code.co_filename}:{code.co_name}")
            frame = frame.f_back
        seen[tuple(stack)] += 1

    def write() -> None:
        lines = (json.dumps([stack, times]) for stack, times in seen.items())
        fresh = target.with_suffix(".new")
        fresh.write_text("".join(f"{line}\n" for line in lines))
        fresh.replace(target)

    signal.signal(signal.SIGPROF, sample)
    signal.siginterrupt(signal.SIGPROF, False)
    signal.setitimer(signal.ITIMER_PROF, INTERVAL_S, INTERVAL_S)


if __name__ == "__main__":
    from services.cli import main

    start(Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))
    sys.argv = ["answerbus", *sys.argv[4:]]
    main()
