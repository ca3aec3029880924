"""What requests with large contexts take, of CPU and of memory."""

from collections.abc import Iterator

from tests.benchmarks.feed import feeding
from tests.benchmarks.figures import Bar, Figure
from tests.benchmarks.latency import Latency
from tests.benchmarks.rig import Rig
from tests.benchmarks.size import Size
from tests.benchmarks.steady import watch

NAME = "contexts"
IN_FLIGHT = 100
WAITING = 300  # requests that stand behind those in flight
WORKFLOWS = 20_000
KIB = 1_024
PEAK_MIB_MAX = {2: None, 32: None, 256: Bar("<=", 400)}  # by KiB of context


def measure(rig: Rig, size: Size) -> Iterator[Figure]:
    """One worker, with contexts of one size after another."""
    for kib, bar in PEAK_MIB_MAX.items():
        case = f"{IN_FLIGHT} in flight, {kib} KiB"
        if not rig.wants(case):
            continue
        field = rig.field()
        rig.begin(Latency("log-normal"))
        with feeding(field, IN_FLIGHT + WAITING, WORKFLOWS, kib * KIB):
            steady = watch(rig, field.product(IN_FLIGHT), size.warmup_s, size.window_s)
        rig.say(f"  {steady.cpu_ms:.2f} ms, {steady.peak_mib:.0f} MiB")
        for name, value, unit, bound in (
            ("in-flight efficiency", steady.share_of(IN_FLIGHT), "", None),
            ("CPU per request", steady.cpu_ms, "ms", None),
            ("peak memory", steady.peak_mib, "MiB", bar),
            ("cores, others", steady.cores["others"], "cores", None),
        ):
            yield Figure(NAME, case, "product", name, value, unit, bound, steady.parameters)
