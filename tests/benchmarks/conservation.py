"""How a known number of requests ended: lost, doubled, called more than once."""

import math
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from tests.benchmarks.downstream import Downstream
from tests.benchmarks.journal import HUNG_UP, Call
from tests.benchmarks.rig import Rig

ANSWERED = 200
LAST_CALL_S = 0.5  # until the stub has noticed that a caller is gone


@dataclass(frozen=True, slots=True)
class Account:
    """Of a trial that is over. `repeated` are calls beyond the first of a request that ran."""

    lost: int
    doubled: int
    repeated: int
    hung_up: int
    dead_letters: int


def account(rig: Rig, published: int, seen: Downstream) -> Account:
    """Of all requests since the journal began."""
    time.sleep(LAST_CALL_S)
    calls = rig.calls()
    return Account(
        lost=published - len(seen.seen_at),
        doubled=seen.doubled,
        repeated=repeated(calls),
        hung_up=sum(call.status == HUNG_UP for call in calls),
        dead_letters=seen.kinds["dead_letter"],
    )


def unsettled(calls: list[Call], seen_at: Mapping[str, float], moment: float) -> int:
    """Calls that had begun by then, and still ran or had not led to a terminal that was seen."""
    running = sum(call.span.begin < moment <= call.span.end for call in calls)
    answered = sum(
        call.span.end < moment < seen_at.get(call.request_id, math.inf)
        for call in calls
        if call.status == ANSWERED
    )
    return running + answered


def repeated(calls: list[Call]) -> int:
    """Calls beyond the first of each request, of those that the stub worked on."""
    times = Counter(call.request_id for call in calls if not call.is_refused)
    return sum(times.values()) - len(times)
