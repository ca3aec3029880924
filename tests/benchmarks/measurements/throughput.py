"""How fast it goes when the provider answers at once."""

from collections.abc import Iterator

from tests.benchmarks.feed import feeding
from tests.benchmarks.figures import Figure
from tests.benchmarks.latency import Latency
from tests.benchmarks.measurements.efficiency import WAITING, WORKFLOWS
from tests.benchmarks.rig import Rig
from tests.benchmarks.size import Size
from tests.benchmarks.steady import watch

NAME = "throughput"
IN_FLIGHT = 1_000


def measure(rig: Rig, size: Size) -> Iterator[Figure]:
    """Product and baseline, one process each."""
    starts = rig.products(IN_FLIGHT)
    starts["baseline"] = lambda field: field.baseline(IN_FLIGHT)
    for who, start in starts.items():
        if not rig.wants(f"instant provider: {who}"):
            continue
        field = rig.field(baseline=who == "baseline")
        rig.begin(Latency("instant"))
        with feeding(field, IN_FLIGHT + WAITING, WORKFLOWS):
            steady = watch(rig, start(field), size.warmup_s, size.window_s)
        for name, value, unit in (
            ("requests per second", steady.per_s, "1/s"),
            ("CPU per request", steady.cpu_ms, "ms"),
            *((f"cores, {party}", cores, "cores") for party, cores in steady.cores.items()),
        ):
            yield Figure(
                NAME, "instant provider", who, name, value, unit, parameters=steady.parameters
            )
