"""Twelve workers of one group, of which one joins, one leaves and one is killed."""

import math
import time
from collections.abc import Callable, Iterator, Mapping

from answerbus.partition import partition_of
from tests.benchmarks.arithmetic import percentile
from tests.benchmarks.conservation import repeated
from tests.benchmarks.downstream import Downstream, watching
from tests.benchmarks.figures import Bar, Figure
from tests.benchmarks.latency import Latency
from tests.benchmarks.rig import Contestant, Field, Rig
from tests.benchmarks.size import Size
from tests.benchmarks.upstream import bodies
from tests.integration.bus import Worker

NAME = "members"
WORKERS = 12
PARTITIONS = 24  # so that a thirteenth has something to do
IN_FLIGHT = 10  # each
PER_S = 24.0  # requests, so that no core is busy
AFTERWARDS_S = 20.0
OPEN_LIMIT_S = 120.0
END_LIMIT_S = 180.0

Change = Callable[[Field, list[Contestant]], None]
Owners = Mapping[int, int]  # of each partition the process


def _join(field: Field, workers: list[Contestant]) -> None:
    workers.append(field.product(IN_FLIGHT, each=True))


def _leave(_: Field, workers: list[Contestant]) -> None:
    workers.pop(0).stop()


def _kill(_: Field, workers: list[Contestant]) -> None:
    workers.pop(0).kill()


def _none(_: Field, __: list[Contestant]) -> None:
    pass


CHANGES: Mapping[str, Change] = {
    "none comes or goes": _none,
    "one joins": _join,
    "one leaves": _leave,
    "one is killed": _kill,
}


def measure(rig: Rig, _: Size) -> Iterator[Figure]:
    """One group through all of it, under the same even load each time."""
    if not rig.wants(f"{WORKERS} workers"):
        return
    field = rig.field(PARTITIONS)
    rig.begin(Latency("constant"))
    workers = [field.product(IN_FLIGHT, each=True) for _ in range(WORKERS)]
    before = _owners(rig, workers)
    with watching(field.bus) as seen:
        for name, change in CHANGES.items():
            rig.say(f"  {name}")
            began, calls = time.time(), repeated(rig.calls())
            change(field, workers)
            asked = _load(rig, field, seen, name.replace(" ", "-"))
            after = _owners(rig, workers)
            moved = {place for place, owner in after.items() if before[place] != owner}
            more = repeated(rig.calls()) - calls
            yield from _figures(rig, field, seen, name, asked, moved, began, more)
            before = after
    field.end()


def _owners(rig: Rig, workers: list[Contestant]) -> Owners:
    """Once each partition is open somewhere."""
    found: dict[int, int] = {}

    def are_open() -> bool:
        found.clear()
        for process in (process for worker in workers for process in worker.processes):
            assert process.child is not None
            lanes = Worker(process.child, process.log).health["lanes"]
            found.update({int(n): process.pid for n, state in lanes.items() if state == "open"})
        return len(found) == PARTITIONS

    rig.wait(are_open, "open lanes", OPEN_LIMIT_S)
    return dict(found)


def _load(rig: Rig, field: Field, seen: Downstream, name: str) -> dict[str, int]:
    """An even load; its requests and their partitions, once all of them are answered."""
    count = int(PER_S * AFTERWARDS_S)
    asked = list(bodies(f"{field.bus.prefix}-{name}", count, count))
    field.upstream.publish_at(asked, PER_S)
    places = {one["request_id"]: partition_of(one["workflow_id"], PARTITIONS) for one in asked}
    rig.wait(lambda: places.keys() <= seen.seen_at.keys(), "all terminals", END_LIMIT_S)
    return places


def _figures(
    rig: Rig,
    field: Field,
    seen: Downstream,
    case: str,
    asked: Mapping[str, int],
    moved: set[int],
    began: float,
    more: int,
) -> Iterator[Figure]:
    lasted = {call.request_id: call.span.length_s for call in rig.calls()}
    added = {
        name: 1000 * (seen.seen_at[name] - field.upstream.appended_at[name] - lasted[name])
        for name in asked
    }
    stayed = [added[name] for name, place in asked.items() if place not in moved]
    first: dict[int, float] = {}
    for name, place in asked.items():
        first[place] = min(first.get(place, math.inf), seen.seen_at[name] - began)
    works = max((first[place] for place in moved if place in first), default=0.0)
    is_orderly = case != "one is killed"
    for name, value, unit, bar in (
        ("lanes that move", float(len(moved)), "", None),
        ("added, p50, lanes that stay", percentile(stayed, 0.5), "ms", None),
        ("added, p99, lanes that stay", percentile(stayed, 0.99), "ms", None),
        ("repeated calls", float(more), "", Bar("=", 0) if is_orderly else None),
        ("s until moved lanes work", works, "s", None),
    ):
        yield Figure(NAME, case, "product", name, value, unit, bar)
