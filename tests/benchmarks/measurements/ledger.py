"""A lane with a long past: how fast it opens and how much memory it takes."""

import time
from collections.abc import Iterator

from tests.benchmarks import seeds
from tests.benchmarks.feed import feeding
from tests.benchmarks.figures import Bar, Figure
from tests.benchmarks.latency import Latency
from tests.benchmarks.measurements.efficiency import WAITING, WORKFLOWS
from tests.benchmarks.rig import Field, Rig
from tests.benchmarks.size import Size
from tests.benchmarks.steady import watch

NAME = "ledger"
IN_FLIGHT = 1_000
OPENING_S_MAX = 5.0
MEMORY_MIB_MAX = 300.0
OPEN_LIMIT_S = 120.0
LOOK_EVERY_S = 0.01
REQUESTS_EACH = 10  # of a workflow


def measure(rig: Rig, size: Size) -> Iterator[Figure]:
    """One lane that remembers everything, beside one that remembers nothing."""
    for count in (0, size.closed_ids):
        case = f"{count:,} accounts and closed ids, 1 lane"
        field = rig.field(partitions=1)
        seeds.sow(field.bus, seeds.closed(count, count, seeds.now()))
        rig.say(f"opening with {case}")
        opening_s = _opening_s(rig, field)
        bar = Bar("<=", OPENING_S_MAX) if count else None
        yield Figure(NAME, case, "product", "opening", opening_s, "s", bar)
    closed_ids, workflows = size.closed_ids, size.closed_ids // REQUESTS_EACH
    case = f"{closed_ids:,} closed ids of {workflows:,} workflows, 12 lanes, 1,000 in flight"
    rig.say(case)
    field = rig.field()
    seeds.sow(field.bus, seeds.closed(closed_ids, workflows, seeds.now()))
    rig.begin(Latency("log-normal"))
    with feeding(field, IN_FLIGHT + WAITING, WORKFLOWS):
        steady = watch(rig, field.product(IN_FLIGHT), size.warmup_s, size.window_s)
    bar = Bar("<=", MEMORY_MIB_MAX)
    yield Figure(
        NAME, case, "product", "peak memory", steady.peak_mib, "MiB", bar, steady.parameters
    )


def _opening_s(rig: Rig, field: Field) -> float:
    """From the moment at which the worker serves its health to that at which its lane is open."""
    rig.begin(Latency("instant"))
    contestant = field.product(IN_FLIGHT)
    began = time.monotonic()
    rig.wait(lambda: contestant.open_lanes() == 1, "an open lane", OPEN_LIMIT_S, LOOK_EVERY_S)
    took_s = time.monotonic() - began
    contestant.kill()
    return took_s
