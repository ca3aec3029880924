"""How much of a provider's concurrency is used, and what a request costs."""

from collections.abc import Iterator, Mapping

from tests.benchmarks.arithmetic import in_flight_over_time
from tests.benchmarks.feed import feeding
from tests.benchmarks.figures import Bar, Figure
from tests.benchmarks.journal import spans
from tests.benchmarks.latency import Latency
from tests.benchmarks.rig import Rig, Start
from tests.benchmarks.size import Size
from tests.benchmarks.steady import Steady, watch

NAME = "efficiency"
WORKFLOWS = 20_000  # so many that order within them keeps nobody waiting
WAITING = 2_000  # requests that are behind those in flight
CURVE_STEP_S = 0.5
CPU_MS_MAX = 1.6
ADAPTER = "baseline, adapter"

# Of the log-normal alone: 0.85 of 1,000 calls of 1 s each leave a core 1.2 ms a request.
BARS: Mapping[int, Mapping[str, Bar]] = {
    100: {"product": Bar(">=", 0.99)},
    1_000: {"product": Bar(">=", 0.85), "product, 2 processes": Bar(">=", 0.95)},
}

LATENCIES = (Latency("log-normal"), Latency("constant"))


def measure(rig: Rig, size: Size) -> Iterator[Figure]:
    """Product and baselines side by side, at 100 and at 1,000 in flight."""
    for in_flight in (100, 1_000):
        for latency in LATENCIES:
            case = f"{in_flight:,} in flight, {latency.model}"
            bars = BARS if latency.model == "log-normal" else {}
            starts = rig.products(in_flight) | _others(in_flight, latency)
            yield from _side_by_side(
                rig, size, case, in_flight, latency, starts, bars.get(in_flight, {})
            )


def _others(in_flight: int, latency: Latency) -> dict[str, Start]:
    starts: dict[str, Start] = {ADAPTER: lambda field: field.baseline(in_flight)}
    if in_flight == 1_000:
        starts["product, 2 processes"] = lambda field: field.product(
            in_flight, workers=2, forked=True
        )
        if latency.model == "log-normal":
            starts["baseline, bare"] = lambda field: field.baseline(in_flight, "bare")
            starts["baseline, aiohttp"] = lambda field: field.baseline(in_flight, "aiohttp")
            starts["baseline, as it comes"] = lambda field: field.baseline(in_flight, "as it comes")
    return starts


def _side_by_side(
    rig: Rig,
    size: Size,
    case: str,
    in_flight: int,
    latency: Latency,
    starts: dict[str, Start],
    bars: Mapping[str, Bar],
) -> Iterator[Figure]:
    costs: dict[str, float] = {}
    for who, start in starts.items():
        if not rig.wants(f"{case}: {who}"):
            continue
        field = rig.field(baseline=who.startswith("baseline"))
        rig.begin(latency)
        with feeding(field, in_flight + WAITING, WORKFLOWS):
            contestant = start(field)
            steady = watch(rig, contestant, size.warmup_s, size.window_s)
        rig.say(f"  {steady.share_of(in_flight):.3f}, {steady.cpu_ms:.2f} ms, {steady.cores}")
        judged = {"in-flight efficiency": bars.get(who)}
        if who == "product" and in_flight == 1_000:
            judged |= {"CPU per request": Bar("<=", CPU_MS_MAX), "peak memory": Bar("<=", 300)}
        yield from figures_of(NAME, case, who, in_flight, steady, judged)
        costs[who] = steady.cpu_ms
    if costs.keys() >= {"product", ADAPTER}:
        times = costs["product"] / costs[ADAPTER]
        yield Figure(NAME, case, "product", "CPU, times the baseline's", times, "")


def figures_of(
    measurement: str,
    case: str,
    who: str,
    in_flight: int,
    steady: Steady,
    bars: Mapping[str, Bar | None],
) -> Iterator[Figure]:
    """What one contestant did in its window, and its calls in flight from the first one on."""
    for name, value, unit in (
        ("in-flight efficiency", steady.share_of(in_flight), ""),
        ("CPU per request", steady.cpu_ms, "ms"),
        ("requests per second", steady.per_s, "1/s"),
        ("peak memory", steady.peak_mib, "MiB"),
        *((f"cores, {party}", cores, "cores") for party, cores in steady.cores.items()),
    ):
        yield Figure(measurement, case, who, name, value, unit, bars.get(name), steady.parameters)
    curve = tuple(in_flight_over_time(spans(steady.calls), CURVE_STEP_S))
    yield Figure(measurement, case, who, "in flight over time", None, "calls", points=curve)
