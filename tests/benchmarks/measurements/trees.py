"""A large tree of runs: how long `answerbus workflow` and the console take to read and draw it."""

import asyncio
import sys
import time
from collections.abc import Callable, Iterator
from io import StringIO
from statistics import median
from subprocess import run
from urllib.parse import quote

from rich.console import Console

from answerbus.client.bus import Bus
from answerbus.envelope import encode
from answerbus.topics import RUN_TOPICS, TOPIC_OF_KIND
from services.commands.workflow import records_of, runs_of
from services.operators.runs.rendering import tree_of
from services.operators.timeline.timeline import timeline
from tests.benchmarks import long_past
from tests.benchmarks.figures import Bar, Figure
from tests.benchmarks.measurements.console import Visitor, start_console
from tests.benchmarks.rig import Field, Rig
from tests.benchmarks.size import Size
from tests.integration.bus import create_topics
from tests.unit.operators.runs.events import WORKFLOW
from tests.unit.operators.runs.large_tree import CHILDREN, NODES, large_tree

NAME = "trees"
TREE_MS_MAX = 500.0
ROUNDS = 10
PAST_ATTEMPTS = 10_000  # of other workflows, in the same topics
READ_LIMIT_S = 120.0


def measure(rig: Rig, size: Size) -> Iterator[Figure]:
    """The slowest of some rounds, the first one left out: it also opens connections."""
    del size  # there is one size of tree
    field, case = rig.field(), f"a tree of {NODES} nodes, {CHILDREN} children"
    asyncio.run(create_topics(field.bus, topics=RUN_TOPICS))
    long_past.write(field.bus, PAST_ATTEMPTS)
    records = [(TOPIC_OF_KIND[it.kind], WORKFLOW.encode(), encode(it).value) for it in large_tree()]
    long_past.send(field.bus, records)
    bar = Bar("<=", TREE_MS_MAX)
    for name, once in (
        ("answerbus workflow, read and drawn", _drawn(field)),
        ("console, the page of its workflow", _visited(rig, field)),
    ):
        times = sorted([_took_ms(once) for _ in range(ROUNDS + 1)][1:])
        rig.say(f"{name}: {median(times):.0f} ms, at most {times[-1]:.0f} ms")
        yield Figure(NAME, case, "product", f"slowest of {ROUNDS}: {name}", times[-1], "ms", bar)
    took_ms = _took_ms(_whole_command(rig, field))
    what = "answerbus workflow --tree, with the start of the process"
    yield Figure(NAME, case, "product", what, took_ms, "ms")


def _drawn(field: Field) -> Callable[[], None]:
    """What the command does with a running interpreter."""
    bus = Bus(field.bus.bootstrap, field.bus.prefix, {})

    def once() -> None:
        entries = timeline(WORKFLOW, asyncio.run(records_of(bus, WORKFLOW)))
        console = Console(file=StringIO(), width=200)
        for tree in runs_of(entries):
            console.print(tree_of(tree, show_content=False))
        _check(console.file.getvalue() if isinstance(console.file, StringIO) else "")

    return once


def _visited(rig: Rig, field: Field) -> Callable[[], None]:
    """The whole page, for an operator, over HTTP."""
    process = start_console(rig, field)
    visitor = Visitor(process.log.read_text().partition("is at ")[2].split()[0])
    path = f"/workflow?id={quote(WORKFLOW)}"
    message = "topics are being read"
    rig.wait(lambda: message not in visitor.visit("/")[1], "topics are read", READ_LIMIT_S)
    return lambda: _check(visitor.visit(path)[1])


def _whole_command(rig: Rig, field: Field) -> Callable[[], None]:
    config = field.bus.settings("")
    command = [sys.executable, "-m", "services.cli", "workflow", WORKFLOW, "--tree"]
    command += ["--config", str(config)]
    variables = {**rig.environment, "COLUMNS": "200"}
    return lambda: _check(
        run(command, env=variables, capture_output=True, text=True, check=True).stdout
    )


def _check(text: str) -> None:
    """All children are there."""
    if text.count("3 attempts") < CHILDREN:
        raise RuntimeError("the tree is not whole")


def _took_ms(once: Callable[[], None]) -> float:
    began = time.monotonic()
    once()
    return (time.monotonic() - began) * 1000
