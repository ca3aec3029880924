"""Sampled stacks as shares: which library runs, and on behalf of which part of ours."""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

Stack = tuple[str, ...]
Grouping = Callable[[Stack], str]

_ROOT = str(Path(__file__).parents[2])
_OURS = ("services/", "contracts/answerbus/")
_SITE = "/site-packages/"
_NO_CAUSE = {"asyncio", "python", "typer", "click"}
# The first of these that the innermost place with any of them has.
PARTS = {
    "adapters/providers/apis/openai.py": "call: request and transport",
    "adapters/providers/exchange.py": "call: request and transport",
    "adapters/providers/apis/openai_replies.py": "call: reading the answer",
    "lane/outbox.py": "transactions",
    "adapters/kafka/shard.py": "transactions",
    "producer/": "transactions (aiokafka's sender)",
    "lane/state/lane_state.py:spend": "spend",
    "lane/state/lane_state.py": "settle: outcome, audit, ledger",
    "core/outcome/decide.py": "settle: outcome, audit, ledger",
    "worker/limits/": "slots and limits",
    "core/attempt/check.py": "checking the answer",
    "core/attempt/prompt.py": "prompt",
    "worker/plans.py": "plan",
    "lane/lane.py:deliver": "intake: admit and queue",
    "worker/adapters/kafka/intake.py": "intake: decode and digest",
    "consumer/": "intake (aiokafka's consumer)",
    "faststream/": "intake (FastStream)",
    "lane/lane.py": "turns and tasks",
    "worker/handle.py": "turns and tasks",
    "lane/request_task.py": "turns and tasks",
    "lane/admission.py": "turns and tasks",
    "aiohttp/": "call: connections",
    "aiokafka/": "aiokafka",
}


def read(path: Path) -> Counter[Stack]:
    """Stacks, innermost first, and how often each was seen."""
    lines = (json.loads(line) for line in path.read_text().splitlines())
    return Counter({tuple(stack): times for stack, times in lines})


def library(place: str) -> str:
    """Whose code a place (`file:function`) is: one of our modules, a library, or Python's own."""
    file = place.rpartition(":")[0]
    if _SITE in file:
        return file.rpartition(_SITE)[2].split("/")[0].removesuffix(".py")
    inside = file.removeprefix(f"{_ROOT}/")
    if inside.startswith(_OURS):
        return "ours"
    if "/asyncio/" in file or file.endswith("selectors.py"):
        return "asyncio"
    if "/json/" in file:
        return "json"
    return "python"


def running(stack: Stack) -> str:
    """The library whose code runs (C code counts as its caller's)."""
    return library(stack[0])


def part(stack: Stack) -> str:
    """The innermost thing on the stack that says what it is for."""
    for place in stack:
        for mark, name in PARTS.items():
            if mark in place:
                return name
    return library(next((p for p in reversed(stack) if library(p) not in _NO_CAUSE), stack[0]))


def cause(stack: Stack) -> str:
    """The innermost function of ours, else the library that runs on its own account."""
    for place in stack:
        if library(place) == "ours":
            file, _, function = place.removeprefix(f"{_ROOT}/").rpartition(":")
            return f"{file.rpartition('/')[2]}:{function}"
    others = [name for name in map(library, stack) if name not in _NO_CAUSE]
    return others[-1] if others else "asyncio"


def shares(stacks: Counter[Stack], of: Grouping) -> list[tuple[str, float]]:
    """How much of all samples falls to each group, the largest first."""
    total = sum(stacks.values()) or 1
    grouped: Counter[str] = Counter()
    for stack, times in stacks.items():
        grouped[of(stack)] += times
    return [(name, times / total) for name, times in grouped.most_common()]


def largest(found: Iterable[tuple[str, float]], at_least: float) -> list[tuple[str, float]]:
    """The rows worth showing, and the rest as one."""
    rows = list(found)
    shown = [row for row in rows if row[1] >= at_least]
    rest = sum(share for _, share in rows) - sum(share for _, share in shown)
    return [*shown, ("the rest", rest)] if rest > 0 else shown
