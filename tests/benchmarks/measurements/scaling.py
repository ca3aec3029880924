"""One, two and four workers on one topic, where waiting for the provider is all there is to do."""

from collections.abc import Iterator

from tests.benchmarks.feed import feeding
from tests.benchmarks.figures import Bar, Figure
from tests.benchmarks.latency import Latency
from tests.benchmarks.rig import PARTITIONS, Rig
from tests.benchmarks.size import Size
from tests.benchmarks.steady import Steady, watch

NAME = "scaling"
IN_FLIGHT = 20  # of each worker: little enough that no core is busy
WORKFLOWS = 1_000
OPEN_LIMIT_S = 60.0
BARS = {1: None, 2: Bar(">=", 1.9), 4: Bar(">=", 3.7)}


def measure(rig: Rig, size: Size) -> Iterator[Figure]:
    """Throughput, as a multiple of one worker's."""
    alone = 0.0
    for workers, bar in BARS.items():
        rig.say(f"{workers} workers")
        steady = _steady(rig, size, workers)
        alone = alone or steady.per_s
        case = f"{workers} workers, {IN_FLIGHT} in flight each, 1 s"
        parameters = steady.parameters
        yield Figure(
            NAME, case, "product", "requests per second", steady.per_s, "1/s", None, parameters
        )
        yield Figure(
            NAME, case, "product", "times one worker", steady.per_s / alone, "", bar, parameters
        )
        busy = sum(steady.cores.values()) - steady.cores["others"]
        yield Figure(NAME, case, "product", "cores in use", busy, "cores", None, parameters)


def _steady(rig: Rig, size: Size, workers: int) -> Steady:
    field = rig.field()
    rig.begin(Latency("constant"))
    contestant = field.product(IN_FLIGHT, workers=workers, each=True)
    rig.wait(lambda: contestant.open_lanes() == PARTITIONS, "all lanes open", OPEN_LIMIT_S)
    with feeding(field, 10 * IN_FLIGHT * workers, WORKFLOWS):
        return watch(rig, contestant, size.warmup_s, size.scaling_window_s)
