"""Two `kill -9` under load, and a second worker that comes and goes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.benchmarks.conservation import Account, account, unsettled
from tests.benchmarks.downstream import Downstream, watching
from tests.benchmarks.figures import Bar, Figure
from tests.benchmarks.latency import Latency
from tests.benchmarks.rig import Field, Rig, Start
from tests.benchmarks.size import Size
from tests.benchmarks.upstream import bodies

NAME = "kills"
IN_FLIGHT = 100
KILLS = 2
END_LIMIT_S = 180.0

STARTS: dict[str, Start] = {
    "product": lambda field: field.product(IN_FLIGHT),
    "baseline": lambda field: field.baseline(IN_FLIGHT),
}


def measure(rig: Rig, size: Size) -> Iterator[Figure]:
    """Both faults, product beside baseline."""
    count = size.kill_requests
    for who, start in STARTS.items():
        rig.say(f"two kills in {count} requests: {who}")
        with _under_load(rig, count, who) as (field, seen):
            kills = _kill_twice(rig, field, start, count)
            _finish(rig, seen, count)
        yield from _figures(rig, who, "two kill -9", count, seen, kills)
    for who, start in STARTS.items():
        rig.say(f"a second worker joins and leaves: {who}")
        with _under_load(rig, count, who) as (field, seen):
            _join_and_leave(rig, field, start, count)
            _finish(rig, seen, count)
        yield from _figures(rig, who, "a worker joins and leaves", count, seen, [])


def _kill_twice(rig: Rig, field: Field, start: Start, count: int) -> list[float]:
    """When the kills were, on the wall clock."""
    kills = []
    contestant = start(field)
    for kill in range(1, KILLS + 1):
        _answered(rig, count * kill // (KILLS + 1))
        rig.say(f"  kill with {rig.stub.stats()['in_flight']} in flight")
        kills.append(time.time())
        contestant.kill()
        contestant = start(field)
    return kills


def _join_and_leave(rig: Rig, field: Field, start: Start, count: int) -> None:
    start(field)
    _answered(rig, count // 3)
    rig.say("  it joins")
    guest = start(field)
    _answered(rig, count * 2 // 3)
    rig.say("  it leaves")
    guest.stop()


@contextmanager
def _under_load(rig: Rig, count: int, who: str) -> Iterator[tuple[Field, Downstream]]:
    field = rig.field(baseline=who == "baseline")
    rig.begin(Latency("log-normal"))
    field.upstream.publish_all(bodies(field.bus.prefix, count, count))
    topics = None if who == "product" else [field.baseline_results]
    with watching(field.bus, topics) as seen:
        yield field, seen
    field.end()


def _answered(rig: Rig, count: int) -> None:
    rig.wait(lambda: rig.stub.stats()["answered"] >= count, f"{count} answers", END_LIMIT_S, 0.02)


def _finish(rig: Rig, seen: Downstream, count: int) -> None:
    try:
        rig.wait(lambda: len(seen.seen_at) >= count, "all terminals", END_LIMIT_S)
    except RuntimeError as missing:
        rig.say(f"  {missing}")  # that is a figure too


def _figures(
    rig: Rig, who: str, case: str, count: int, seen: Downstream, kills: list[float]
) -> Iterator[Figure]:
    found: Account = account(rig, count, seen)
    calls = rig.calls()
    at_kills = sum(unsettled(calls, seen.seen_at, kill) for kill in kills)
    rig.say(f"  {found}, {at_kills} unsettled at the kills")
    judged = who == "product"
    parameters = {"requests": count, "in_flight": IN_FLIGHT}
    for name, value, bar in (
        ("lost", found.lost, Bar("=", 0)),
        ("doubled", found.doubled, Bar("=", 0)),
        ("repeated calls", found.repeated, Bar("<=", at_kills)),
        ("calls unsettled at the kills", at_kills, None),
        ("of these cut", found.hung_up, None),
    ):
        yield Figure(NAME, case, who, name, value, "", bar if judged else None, parameters)
