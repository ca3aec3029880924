"""Runs of agents beside Calfkit, LangGraph and DBOS: what a step costs, and what is added to it."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from infra.setup_error import SetupError
from tests.benchmarks.agents import bytes_written, plain_requests, run_kills, waiting_runs
from tests.benchmarks.agents.acting import Plan
from tests.benchmarks.agents.entrant import Entrant, Load, Task, cores_of, gaps_ms
from tests.benchmarks.agents.entrants import entrants
from tests.benchmarks.agents.toolset import LATE_S
from tests.benchmarks.agents.trial import trial
from tests.benchmarks.arithmetic import Span, percentile
from tests.benchmarks.cores import Meter
from tests.benchmarks.figures import Bar, Figure
from tests.benchmarks.journal import Call
from tests.benchmarks.latency import Latency
from tests.benchmarks.rig import Contestant, Rig
from tests.benchmarks.size import Size

NAME = "agent"
STEPS = 10  # of a run, before its answer
OPEN_CALL_S = 4.0  # of the model, with 1,000 runs open: 250 steps/s
RUNS_OPEN = 1_000
RUNS_INSTANT = 100
STEPS_PER_S = 50
LATENCY_STEPS = 5
PARALLEL = 8
STRAGGLERS_PER_S = 2.0
WARMUP_S = 5.0
FIRST_STEP_LIMIT_S = 90.0
MANY = 10_000_000

Measured = Callable[[Rig, Size, Entrant], Iterator[Figure]]


def measure(rig: Rig, size: Size) -> Iterator[Figure]:
    """Every case with every contestant that is there."""
    present = entrants(rig)
    own = present[0]
    for case in (_open, _instant, _latency, _straggler):
        for entrant in present:
            yield from _tried(rig, size, entrant, case)
    for entrant in present:
        yield from _tried(rig, size, entrant, run_kills.measure)
    yield from _tried(rig, size, own, waiting_runs.measure)
    for entrant in present:
        yield from _tried(rig, size, entrant, bytes_written.measure)
    yield from plain_requests.measure(rig, size)


def _tried(rig: Rig, size: Size, entrant: Entrant, case: Measured) -> Iterator[Figure]:
    """A stranger that fails in a case is told, and the others are measured all the same."""
    if entrant.who == "product":
        yield from case(rig, size, entrant)
        return
    try:
        yield from case(rig, size, entrant)
    except (RuntimeError, OSError, SetupError) as error:
        rig.say(f"  {entrant.who} was not measured: {error}")


def _open(rig: Rig, size: Size, entrant: Entrant) -> Iterator[Figure]:
    """What a step costs while many runs are open."""
    case = f"{RUNS_OPEN:,} runs open, a tool call a step"
    yield from _steady(rig, size, entrant, case, Latency("constant", OPEN_CALL_S), RUNS_OPEN)


def _instant(rig: Rig, size: Size, entrant: Entrant) -> Iterator[Figure]:
    """As many steps as one worker can make."""
    case = "instant model and tool"
    yield from _steady(rig, size, entrant, case, Latency("instant"), RUNS_INSTANT)


def _steady(
    rig: Rig, size: Size, entrant: Entrant, case: str, latency: Latency, at_once: int
) -> Iterator[Figure]:
    if not rig.wants(f"{case}: {entrant.who}"):
        return
    load = Load(MANY, open=at_once)
    with trial(rig, entrant, Task(Plan(STEPS)), latency, load) as (field, worker, server, _):
        rig.wait(lambda: rig.stub.stats()["answered"] > at_once, "steps", FIRST_STEP_LIMIT_S)
        time.sleep(WARMUP_S)
        seen = _watch(rig, worker, server, size.growth_window_s)
        field.end()
    yield from _costs(case, entrant, seen)


@dataclass(frozen=True, slots=True)
class Seen:
    """What was done in a window, and what it took."""

    steps: int
    window: Span
    worker_s: float
    server_s: float
    peak_mib: float
    cores: dict[str, float]


def _watch(rig: Rig, worker: Contestant, server: Contestant | None, window_s: float) -> Seen:
    meter, began = Meter(rig, worker), time.time()
    before = worker.usage().cpu_s, server.usage().cpu_s if server else 0.0
    answered = rig.stub.stats()["answered"]
    time.sleep(window_s)
    worker.check()
    used, ended = worker.usage(), time.time()
    server_s = server.usage().cpu_s - before[1] if server else 0.0
    steps = rig.stub.stats()["answered"] - answered
    cores = meter.read()
    return Seen(steps, Span(began, ended), used.cpu_s - before[0], server_s, used.peak_mib, cores)


def _costs(case: str, entrant: Entrant, seen: Seen) -> Iterator[Figure]:
    is_own, is_open = entrant.who == "product", case.startswith(f"{RUNS_OPEN:,}")
    bars = {
        "CPU of the worker, per step": Bar("<=", 2.6) if is_open else None,
        "CPU of the tool server, per step": Bar("<=", 1.2) if is_open else None,
        "steps per second": None if is_open else Bar(">=", 300),
    }
    values = [
        ("CPU of the worker, per step", 1000 * seen.worker_s / max(seen.steps, 1), "ms"),
        ("CPU of the tool server, per step", 1000 * seen.server_s / max(seen.steps, 1), "ms"),
        ("steps per second", seen.steps / seen.window.length_s, "1/s"),
        ("peak memory of the worker", seen.peak_mib, "MiB"),
    ]
    values += [(name, cores, "cores") for name, cores in cores_of(seen.cores)]
    about = {"window_s": round(seen.window.length_s, 1), "steps": seen.steps}
    for name, value, unit in values:
        bar = bars.get(name) if is_own else None
        yield Figure(NAME, case, entrant.who, name, value, unit, bar, about)


def _latency(rig: Rig, size: Size, entrant: Entrant) -> Iterator[Figure]:
    """What is added between two steps, at an even rate of runs."""
    case = f"{STEPS_PER_S} steps/s, a tool call a step"
    if not rig.wants(f"{case}: {entrant.who}"):
        return
    plan, per_s = Plan(LATENCY_STEPS), STEPS_PER_S / LATENCY_STEPS
    calls, window = _open_loop(rig, size, entrant, plan, per_s)
    found = gaps_ms(calls, window)
    yield from _added(case, entrant, found, {0.5: 45.0, 0.99: 180.0})


def _straggler(rig: Rig, size: Size, entrant: Entrant) -> Iterator[Figure]:
    """Calls side by side end when the last of them does."""
    case = f"{PARALLEL} tools side by side, one takes {LATE_S:g} s"
    if not rig.wants(f"{case}: {entrant.who}"):
        return
    plan = Plan(1, ("echo",) * (PARALLEL - 1) + ("straggle",))
    calls, window = _open_loop(rig, size, entrant, plan, STRAGGLERS_PER_S)
    found = [gap - 1000 * LATE_S for gap in gaps_ms(calls, window)]
    yield from _added(case, entrant, found, {0.5: 45.0})


def _added(
    case: str, entrant: Entrant, found: list[float], bars_ms: dict[float, float]
) -> Iterator[Figure]:
    if not found:
        raise RuntimeError("no run made a second step within the window")
    for share in (0.5, 0.99):
        bar = Bar("<=", bars_ms[share]) if share in bars_ms and entrant.who == "product" else None
        name, value = f"added, p{share * 100:g}", percentile(found, share)
        yield Figure(NAME, case, entrant.who, name, value, "ms", bar, {"steps": len(found)})


def _open_loop(
    rig: Rig, size: Size, entrant: Entrant, plan: Plan, per_s: float
) -> tuple[list[Call], Span]:
    load = Load(MANY, per_s=per_s)
    latency = Latency("log-normal", median_s=0.5, cap_s=5.0)
    with trial(rig, entrant, Task(plan), latency, load) as (field, _, _, _):
        rig.wait(lambda: rig.stub.stats()["ended"] > 0, "an answer", FIRST_STEP_LIMIT_S)
        time.sleep(WARMUP_S)
        began = time.time()
        time.sleep(size.growth_window_s)
        window = Span(began, time.time())
        field.end()
    return rig.calls(), window
