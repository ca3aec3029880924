"""Whether a request costs more where there is more: a longer past, more workflows, more retries."""

from collections.abc import Callable, Iterator

from tests.benchmarks import seeds
from tests.benchmarks.feed import feeding
from tests.benchmarks.figures import Bar, Figure
from tests.benchmarks.latency import Latency
from tests.benchmarks.measurements.efficiency import WAITING
from tests.benchmarks.rig import Field, Rig
from tests.benchmarks.size import Size
from tests.benchmarks.steady import Steady, watch
from tests.benchmarks.upstream import bodies

NAME = "growth"
IN_FLIGHT = 500  # short of a busy core, so that all trials batch alike
FACTOR = 10
RATIO_MAX = 1.1
WORKFLOWS, HELD = 5_000, 500  # of the smaller trial

Prepare = Callable[[Field, int], None]


def _past(field: Field, count: int) -> None:
    field.upstream.publish_all(bodies("past", count, count))
    seeds.skip(field.bus)
    seeds.sow(field.bus, seeds.closed(count, seeds.now()))


def _held(field: Field, count: int) -> None:
    seeds.sow(field.bus, seeds.held(count, seeds.now()))


def measure(rig: Rig, size: Size) -> Iterator[Figure]:
    """CPU time per request, at one size and at ten times that."""
    past = size.closed_ids // FACTOR
    yield from _compare(rig, size, "requests that are done", past, _past)
    yield from _compare(rig, size, "retries held", HELD, _held)
    yield from _compare(rig, size, "workflows", WORKFLOWS, None)


def _compare(
    rig: Rig, size: Size, what: str, count: int, prepare: Prepare | None
) -> Iterator[Figure]:
    found: list[Steady] = []
    for many in (count, FACTOR * count):
        case = f"{many:,} {what}"
        rig.say(case)
        field = rig.field()
        if prepare:
            prepare(field, many)
        rig.begin(Latency("log-normal"))
        workflows = WORKFLOWS if prepare else many
        with feeding(field, IN_FLIGHT + WAITING, workflows):
            steady = watch(rig, field.product(IN_FLIGHT), size.warmup_s, size.growth_window_s)
        found.append(steady)
        yield Figure(
            NAME, case, "product", "CPU per request", steady.cpu_ms, "ms", None, steady.parameters
        )
    ratio = found[1].cpu_ms / found[0].cpu_ms
    bar = Bar("<=", RATIO_MAX)
    case = f"{FACTOR} times the {what}"
    yield Figure(NAME, case, "product", "CPU per request, times", ratio, "", bar)
