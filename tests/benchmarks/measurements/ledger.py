"""A lane with a long past: how fast it opens and how much memory it takes."""

import time
from collections.abc import Iterator

from confluent_kafka import Consumer, TopicPartition

from answerbus.topics import RESULTS
from tests.benchmarks import seeds
from tests.benchmarks.feed import feeding
from tests.benchmarks.figures import Bar, Figure
from tests.benchmarks.latency import Latency
from tests.benchmarks.measurements.efficiency import WAITING, WORKFLOWS
from tests.benchmarks.rig import Contestant, Field, Rig
from tests.benchmarks.size import Size
from tests.benchmarks.steady import watch
from tests.benchmarks.upstream import bodies

NAME = "ledger"
IN_FLIGHT = 1_000
OPENING_S_MAX = 5.0
MEMORY_MIB_MAX = 300.0
OPEN_LIMIT_S = 120.0
LOOK_EVERY_S = 0.05
DAY_S = 86_400.0
DAYS = 5
LATE_S = 7_200.0  # chunks are forgotten as a whole
SINGLES = 50_000  # closed ids that no chunk has yet: about what 12 lanes have at most
DAY_OPENING_S_MAX = 20.0
DAY_MEMORY_MIB_MAX = 400.0
AGAIN_S_MAX = 45.0 + 25.0  # the session of the dead one, and the opening
REQUESTS_EACH = 10  # of a workflow


def measure(rig: Rig, size: Size) -> Iterator[Figure]:
    """Lanes that remember much, beside one that remembers nothing."""
    for count in (0, size.closed_ids):
        case = f"{count:,} accounts and closed ids that stand singly, 1 lane"
        if not rig.wants(case):
            continue
        field = rig.field(partitions=1)
        seeds.fill(field.bus, seeds.closed(count, count, seeds.now()))
        contestant, opening_s = _opened(rig, field, 1)
        contestant.kill()
        bar = Bar("<=", OPENING_S_MAX) if count else None
        yield Figure(NAME, case, "product", "opening", opening_s, "s", bar)
    yield from _of_a_day(rig, size)
    closed_ids, workflows = size.closed_ids, size.closed_ids // REQUESTS_EACH
    case = f"{closed_ids:,} closed ids of {workflows:,} workflows, 12 lanes, 1,000 in flight"
    if not rig.wants(case):
        return
    field = rig.field()
    seeds.fill(field.bus, seeds.closed(closed_ids, workflows, seeds.now()))
    rig.begin(Latency("log-normal"))
    with feeding(field, IN_FLIGHT + WAITING, WORKFLOWS):
        steady = watch(rig, field.product(IN_FLIGHT), size.warmup_s, size.window_s)
    bar = Bar("<=", MEMORY_MIB_MAX)
    yield Figure(
        NAME, case, "product", "peak memory", steady.peak_mib, "MiB", bar, steady.parameters
    )


def _of_a_day(rig: Rig, size: Size) -> Iterator[Figure]:
    """All lanes of one process behind a busy day, and behind five of them."""
    state = f"{size.accounts:,} accounts, {size.held:,} held retries, 12 lanes"
    bars = Bar("<=", DAY_OPENING_S_MAX), Bar("<=", 2 * DAY_OPENING_S_MAX)
    for days, bar in zip((1, DAYS), bars, strict=True):
        ids = f"{size.day_ids:,} closed ids" + (f" a day for {days} days" if days > 1 else "")
        case = f"{ids}, {state}"
        if not rig.wants(case):
            continue
        field, now = rig.field(), seeds.now()
        if days > 1:
            of_old = size.day_ids * (days - 1)
            old = seeds.packed(of_old, 12, now, from_s=days * DAY_S, to_s=DAY_S + LATE_S)
            seeds.fill_packed(field.bus, old, is_over=True)
        seeds.fill(field.bus, seeds.closed(SINGLES, size.accounts, now))
        seeds.fill(field.bus, seeds.held(size.held, now))
        of_today = seeds.packed(size.day_ids, 12, now, from_s=DAY_S - LATE_S, to_s=0)
        seeds.fill_packed(field.bus, of_today)
        contestant, opening_s = _opened(rig, field, 12)
        yield Figure(NAME, case, "product", "opening", opening_s, "s", bar)
        peak = contestant.usage().peak_mib
        yield Figure(
            NAME, case, "product", "peak memory", peak, "MiB", Bar("<=", DAY_MEMORY_MIB_MAX)
        )
        contestant.kill()
        if days == 1:
            again_s = _first_terminal_s(rig, field)
            name = "from kill -9 to the first terminal"
            yield Figure(NAME, case, "product", name, again_s, "s", Bar("<=", AGAIN_S_MAX))


def _first_terminal_s(rig: Rig, field: Field) -> float:
    """From the moment at which the only worker was killed, and the next one is started."""
    began, before = time.monotonic(), _results(field)
    contestant = field.product(IN_FLIGHT)
    field.upstream.publish_all(bodies("again", 100, 100))
    rig.wait(lambda: _results(field) > before, "a terminal", OPEN_LIMIT_S, LOOK_EVERY_S)
    took_s = time.monotonic() - began
    contestant.kill()
    return took_s


def _results(field: Field) -> int:
    consumer = Consumer({"bootstrap.servers": field.bus.bootstrap, "group.id": "bench.ends"})
    places = [TopicPartition(field.bus.topic(RESULTS), n) for n in range(field.bus.partitions)]
    ends = [consumer.get_watermark_offsets(place, timeout=10)[1] for place in places]
    consumer.close()
    return sum(ends)


def _opened(rig: Rig, field: Field, lanes: int) -> tuple[Contestant, float]:
    """From the moment at which the worker serves its health to that at which all lanes are open."""
    rig.begin(Latency("instant"))
    contestant = field.product(IN_FLIGHT)
    began = time.monotonic()
    rig.wait(lambda: contestant.open_lanes() == lanes, "open lanes", OPEN_LIMIT_S, LOOK_EVERY_S)
    return contestant, time.monotonic() - began
