"""Whether a request costs more where there is more: a longer past, more workflows, more retries."""

from collections.abc import Callable, Iterator

from tests.benchmarks import seeds
from tests.benchmarks.feed import feeding
from tests.benchmarks.figures import Bar, Figure
from tests.benchmarks.latency import Latency
from tests.benchmarks.measurements.efficiency import WAITING
from tests.benchmarks.rig import PARTITIONS, Field, Rig
from tests.benchmarks.size import Size
from tests.benchmarks.steady import Steady, watch
from tests.benchmarks.upstream import bodies

NAME = "growth"
IN_FLIGHT = 500  # short of a busy core, so that all trials batch alike
FACTOR = 10
ROUNDS = 2  # in turns: small, large, small, large
OPEN_LIMIT_S = 120.0
RATIO_MAX = 1.1
WORKFLOWS, HELD = 5_000, 500  # of the smaller trial

Prepare = Callable[[Field, int], None]


def _past(field: Field, count: int) -> None:
    field.upstream.publish_all(bodies("past", count, count))
    seeds.skip(field.bus)
    seeds.fill(field.bus, seeds.closed(count, count, seeds.now()))


def _held(field: Field, count: int) -> None:
    seeds.fill(field.bus, seeds.held(count, seeds.now()))


def measure(rig: Rig, size: Size) -> Iterator[Figure]:
    """CPU time per request, at one size and at ten times that."""
    past = size.closed_ids // FACTOR
    yield from _compare(rig, size, "requests that are done", past, _past)
    yield from _compare(rig, size, "retries held", HELD, _held)
    yield from _compare(rig, size, "workflows", WORKFLOWS, None)


def _compare(
    rig: Rig, size: Size, what: str, count: int, prepare: Prepare | None
) -> Iterator[Figure]:
    found: dict[int, list[Steady]] = {count: [], FACTOR * count: []}
    for _ in range(ROUNDS):
        for many, steadies in found.items():
            rig.say(f"{many:,} {what}")
            steadies.append(_steady(rig, size, many, prepare))
            rig.say(f"  {steadies[-1].cpu_ms:.2f} ms, {steadies[-1].cores}")
    # A disturbance makes a trial dearer: the cheaper of two is the truer one.
    best = {many: min(steadies, key=lambda s: s.cpu_ms) for many, steadies in found.items()}
    for many, steady in best.items():
        case, parameters = f"{many:,} {what}", {**steady.parameters, "rounds": ROUNDS}
        yield Figure(
            NAME, case, "product", "CPU per request", steady.cpu_ms, "ms", None, parameters
        )
    ratio = best[FACTOR * count].cpu_ms / best[count].cpu_ms
    case = f"{FACTOR} times the {what}"
    yield Figure(NAME, case, "product", "times", ratio, "", Bar("<=", RATIO_MAX))


def _steady(rig: Rig, size: Size, many: int, prepare: Prepare | None) -> Steady:
    field = rig.field()
    if prepare:
        prepare(field, many)
    rig.begin(Latency("log-normal"))
    worker = field.product(IN_FLIGHT)
    rig.wait(lambda: worker.open_lanes() == PARTITIONS, "all lanes open", OPEN_LIMIT_S)
    with feeding(field, IN_FLIGHT + WAITING, WORKFLOWS if prepare else many):
        return watch(rig, worker, size.warmup_s, size.growth_window_s)
