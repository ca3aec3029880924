"""The tools of the benchmark: one that answers at once, one that takes its time, one with effects.

answerbus tools serve tests.benchmarks.agents.toolset:bench
"""

import asyncio
import os
import random
import time
from pathlib import Path

from answerbus.tools import Toolset

TOOLSET = "bench"
RESULT_VARIABLE, EFFECTS_VARIABLE = "BENCH_RESULT_BYTES", "BENCH_EFFECTS"
LATE_S = 2.0
NEVER_S = 21_600.0
EFFECT_LIMIT_S = 10.0  # what was claimed by a server that was killed ends then

bench = Toolset(TOOLSET)
_BYTES = int(os.environ.get(RESULT_VARIABLE, "32"))  # noqa: TID251 - set by the benchmark
_RESULT = random.Random(1).randbytes(_BYTES).hex()[:_BYTES]  # no database makes it much smaller


@bench.tool
async def echo(run: str, number: int) -> str:
    """Answer at once."""
    return f"{run} {number} {_RESULT}"


@bench.tool
async def straggle(run: str, number: int) -> str:
    """Answer later than all others."""
    await asyncio.sleep(LATE_S)
    return f"{run} {number}"


@bench.tool(delivery="at_most_once", timeout_s=EFFECT_LIMIT_S)
def effect(run: str, number: int) -> str:
    """Note in a file that it ran: that cannot be taken back."""
    with Path(os.environ[EFFECTS_VARIABLE]).open("a") as effects:  # noqa: TID251
        effects.write(f"{run} {number} {time.time():.6f}\n")
    return "noted"


@bench.tool(timeout_s=NEVER_S)
async def wait(run: str, number: int) -> str:
    """Answer as good as never."""
    await asyncio.sleep(NEVER_S)
    return f"{run} {number}"
