"""A deep backlog, as an outage leaves it behind: how well it is worked off from the start on."""

from collections.abc import Iterator, Mapping

from tests.benchmarks.figures import Bar, Figure
from tests.benchmarks.latency import Latency
from tests.benchmarks.measurements.efficiency import figures_of
from tests.benchmarks.rig import Rig, Start
from tests.benchmarks.size import Size
from tests.benchmarks.steady import watch
from tests.benchmarks.upstream import bodies

NAME = "backlog"
IN_FLIGHT = 1_000
PARTITIONS = 8
WORKFLOWS = 5_000
BEGIN_S = 5.0  # after the first answer: what starts slowly is seen here

OTHERS: Mapping[str, Start] = {
    "product, 2 processes": lambda field: field.product(IN_FLIGHT, workers=2, forked=True),
    "baseline, bare": lambda field: field.baseline(IN_FLIGHT, "bare"),
}
SHARES = {"product": Bar(">=", 0.95), "product, 2 processes": Bar(">=", 0.98)}
NEEDS_DURATION = {"in-flight efficiency", "in flight over time"}  # calls that last
INSTANT = {"product": Bar(">=", 1_000)}


def measure(rig: Rig, size: Size) -> Iterator[Figure]:
    """All requests wait before the first worker starts."""
    for latency in (Latency("log-normal"), Latency("instant")):
        for who, start in (rig.products(IN_FLIGHT) | dict(OTHERS)).items():
            case = f"{size.backlog:,} waiting, {latency.model}"
            if not rig.wants(f"{case}: {who}"):
                continue
            field = rig.field(PARTITIONS, baseline=who.startswith("baseline"))
            field.upstream.publish_all(bodies(field.bus.prefix, size.backlog, WORKFLOWS))
            rig.begin(latency)
            steady = watch(rig, start(field), BEGIN_S, size.backlog_window_s)
            bars = (
                {"requests per second": INSTANT.get(who)}
                if latency.model == "instant"
                else {"in-flight efficiency": SHARES.get(who)}
            )
            rig.say(
                f"  {steady.share_of(IN_FLIGHT):.3f}, {steady.per_s:.0f}/s, {steady.cpu_ms:.2f} ms"
            )
            for figure in figures_of(NAME, case, who, IN_FLIGHT, steady, bars):
                if latency.model != "instant" or figure.name not in NEEDS_DURATION:
                    yield figure
