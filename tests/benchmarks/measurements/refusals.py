"""A provider that says 429, and one that is away, under load."""

import asyncio
import math
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from answerbus.topics import ATTEMPTS
from tests.benchmarks.arithmetic import first_at_least
from tests.benchmarks.conservation import account
from tests.benchmarks.downstream import Downstream, watching
from tests.benchmarks.figures import Bar, Figure
from tests.benchmarks.journal import spans
from tests.benchmarks.latency import Latency
from tests.benchmarks.rig import Field, Rig
from tests.benchmarks.size import Size
from tests.benchmarks.upstream import bodies

NAME = "refusals"
IN_FLIGHT = 100
BACK = 90  # of them
THROTTLED_S = 10
RETRY_AFTER_S = 10
PER_S = 40.0  # requests that come while the provider is away
RETRY_SOON_S = 1  # what a provider that goes away tells those who are still connected
STEADY_S = 8.0
END_LIMIT_S = 180.0


def measure(rig: Rig, size: Size) -> Iterator[Figure]:
    """Both, with a worker that is full and then with one that is half full."""
    for who, workers in (("product", 1), ("product, 2 processes", 2)):
        yield from _throttled(rig, size, who, workers)
    yield from _away(rig, size)


def _throttled(rig: Rig, size: Size, who: str, workers: int) -> Iterator[Figure]:
    count = size.kill_requests * 2
    rig.say(f"429 for {THROTTLED_S} s, {IN_FLIGHT} slots, {who}")
    field = rig.field()
    rig.begin(Latency("log-normal"))
    field.upstream.publish_all(bodies(field.bus.prefix, count, count))
    with watching(field.bus) as seen:
        field.product(IN_FLIGHT, workers=workers, forked=True)
        _steady(rig)
        began = time.time()
        rig.stub.tell(do="throttle", for_s=THROTTLED_S, retry_after_s=RETRY_AFTER_S)
        _finish(rig, seen, count)
    field.end()
    attempts = _failed(field, began, began + THROTTLED_S)
    calls, ended = rig.calls(), began + THROTTLED_S
    refused = sum(call.status == 429 for call in calls)
    back_s = first_at_least(spans(calls), BACK, ended) - ended
    parameters = {"slots": IN_FLIGHT, "retry_after_s": RETRY_AFTER_S, "requests": count}
    yield from _figures(
        rig,
        "429 with Retry-After",
        who,
        count,
        seen,
        parameters,
        ("calls refused", refused, Bar("<=", IN_FLIGHT)),
        (f"s until {BACK} are in flight again", back_s, Bar("<=", 1)),
        ("counted attempts for it", sum(a["counted"] for a in attempts), Bar("=", 0)),
    )


def _away(rig: Rig, size: Size) -> Iterator[Figure]:
    rig.say(f"away for {size.outage_s:g} s, {PER_S:g} requests/s")
    field = rig.field()
    rig.begin(Latency("log-normal"))
    before, during = int(STEADY_S * PER_S), int((size.outage_s + 5) * PER_S)
    with watching(field.bus) as seen:
        field.product(IN_FLIGHT)
        field.upstream.publish_at(bodies("before", before, before), PER_S)
        began = time.time()
        rig.stub.tell(do="away", for_s=size.outage_s, retry_after_s=RETRY_SOON_S)
        field.upstream.publish_at(bodies("during", during, during), PER_S)
        ended = began + size.outage_s
        _finish(rig, seen, before + during)
    field.end()
    drained = max(seen.seen_at.values(), default=ended) - ended
    served = (call.span.begin for call in rig.calls() if call.status == 200)
    first = min((begin for begin in served if begin > ended), default=math.nan) - ended
    attempts = _failed(field, began, ended)
    parameters = {"outage_s": size.outage_s, "requests": before + during, "per_s": PER_S}
    yield from _figures(
        rig,
        "away",
        "product",
        before + during,
        seen,
        parameters,
        ("calls during the outage", len(attempts), None),
        ("counted attempts for it", sum(a["counted"] for a in attempts), Bar("=", 0)),
        ("s until the first call after it", first, None),
        ("s until the last terminal after it", drained, None),
    )


def _steady(rig: Rig) -> None:
    rig.wait(lambda: rig.stub.stats()["answered"] > IN_FLIGHT, "answers", END_LIMIT_S)
    time.sleep(STEADY_S)


def _finish(rig: Rig, seen: Downstream, count: int) -> None:
    try:
        rig.wait(lambda: len(seen.seen_at) >= count, "all terminals", END_LIMIT_S)
    except RuntimeError as missing:
        rig.say(f"  {missing}")  # that is a figure too


def _failed(field: Field, began: float, ended: float) -> list[dict[str, Any]]:
    """The attempts whose call began in that time and brought nothing, released permits apart."""

    def is_meant(attempt: dict[str, Any]) -> bool:
        at = datetime.fromisoformat(attempt["started_at"]).astimezone(UTC).timestamp()
        return began <= at < ended and attempt["failure"] is not None

    return [a for a in asyncio.run(field.bus.everything(ATTEMPTS)) if is_meant(a)]


def _figures(
    rig: Rig,
    case: str,
    who: str,
    count: int,
    seen: Downstream,
    parameters: Mapping[str, float],
    *more: tuple[str, float, Bar | None],
) -> Iterator[Figure]:
    found = account(rig, count, seen)
    rig.say(f"  {found} {more}")
    for name, value, bar in (
        *more,
        ("lost", found.lost, Bar("=", 0)),
        ("dead letters", found.dead_letters, Bar("=", 0)),
        ("repeated calls", found.repeated, None),
    ):
        yield Figure(NAME, case, who, name, value, "", bar, parameters)
