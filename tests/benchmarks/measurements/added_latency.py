"""What answerbus adds to the provider's own time, at a steady rate of requests."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.benchmarks.arithmetic import percentile
from tests.benchmarks.cores import Meter
from tests.benchmarks.downstream import Downstream, watching
from tests.benchmarks.figures import Bar, Figure
from tests.benchmarks.journal import Call
from tests.benchmarks.latency import Latency
from tests.benchmarks.rig import Field, Rig
from tests.benchmarks.size import Size
from tests.benchmarks.upstream import bodies

NAME = "latency"
RATES_PER_S = (50, 100)
IN_FLIGHT = 1_000  # never reached: nobody waits for a slot
WARMUP_S = 5.0
DRAIN_LIMIT_S = 60.0
SHARES = tuple(n / 100 for n in (*range(5, 100, 5), 99))
BARS_MS = {0.5: 40.0, 0.99: 150.0}


def measure(rig: Rig, size: Size) -> Iterator[Figure]:
    """Open loop: requests come also while those before are open."""
    for per_s in RATES_PER_S:
        for who in ("product", "baseline"):
            if rig.wants(f"{per_s} requests/s: {who}"):
                yield from _trial(rig, size, per_s, who)


def _trial(rig: Rig, size: Size, per_s: int, who: str) -> Iterator[Figure]:
    field = rig.field(baseline=who == "baseline")
    rig.begin(Latency("log-normal"))
    is_product = who == "product"
    contestant = field.product(IN_FLIGHT) if is_product else field.baseline(IN_FLIGHT)
    count, warmups = int(per_s * size.open_loop_s), int(per_s * WARMUP_S)
    with watching(field.bus, None if is_product else [field.baseline_results]) as seen:
        field.upstream.publish_at(bodies("warm-up", warmups, warmups), per_s)
        meter = Meter(rig, contestant)
        field.upstream.publish_at(bodies("measured", count, count), per_s)
        cores = meter.read()
        rig.wait(lambda: len(seen.seen_at) >= count + warmups, "all terminals", DRAIN_LIMIT_S)
    contestant.kill()
    added = _added_ms(field, seen, rig.calls())
    parameters = {"requests": len(added), "in_flight_max": IN_FLIGHT}
    rig.say(f"  {percentile([a.whole for a in added], 0.5):.0f} ms, {cores}")
    yield from _figures(f"{per_s} requests/s", who, added, cores, parameters)


def _figures(
    case: str,
    who: str,
    added: list["_Added"],
    cores: dict[str, float],
    parameters: Mapping[str, float],
) -> Iterator[Figure]:
    def figure(name: str, value: float, unit: str = "ms", bar: Bar | None = None) -> Figure:
        return Figure(NAME, case, who, name, value, unit, bar, parameters)

    whole = [each.whole for each in added]
    for share, bar_ms in BARS_MS.items():
        bar = Bar("<=", bar_ms) if who == "product" else None
        yield figure(f"added, p{share * 100:g}", percentile(whole, share), "ms", bar)
    yield figure("before the call, p50", percentile([each.before for each in added], 0.5))
    yield figure("after the call, p50", percentile([each.after for each in added], 0.5))
    for party, used in cores.items():
        yield figure(f"cores, {party}", used, "cores")
    curve = tuple((share * 100, percentile(whole, share)) for share in SHARES)
    yield Figure(NAME, case, who, "added by percentile", None, "ms", points=curve)


@dataclass(frozen=True, slots=True)
class _Added:
    """To one request, in milliseconds."""

    before: float
    after: float

    @property
    def whole(self) -> float:
        return self.before + self.after


def _added_ms(field: Field, seen: Downstream, calls: list[Call]) -> list[_Added]:
    """From append to the call, and from its answer to being visible; each request had one call."""
    spans = {call.request_id: call.span for call in calls}
    return [
        _Added(
            before=1000 * (spans[request_id].begin - appended),
            after=1000 * (seen.seen_at[request_id] - spans[request_id].end),
        )
        for request_id, appended in field.upstream.appended_at.items()
        if request_id.startswith("measured")
    ]
