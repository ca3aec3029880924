"""How long good requests took while no fault was on, by the broker's time."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta

from tests.chaos.audit.history import History

P95_MAX = timedelta(seconds=2)
_Times = tuple[datetime, datetime]


def took(
    history: History, since: datetime, until: datetime, is_good: Callable[[str], bool]
) -> list[timedelta]:
    """From publish to terminal, of the good requests that were published in that time, sorted.

    Requests behind an open one of their workflow are left out: they take turns (G6).
    """
    by_workflow: dict[str, list[tuple[str, _Times]]] = defaultdict(list)
    for request_id, arrivals in history.accepted.items():
        if terminals := history.terminals.get(request_id):
            times = arrivals[0].asked_at, terminals[0].record.timestamp
            by_workflow[arrivals[0].body["workflow_id"]].append((request_id, times))
    found = []
    for requests in by_workflow.values():
        for request_id, (asked_at, end) in _first_in_line(requests):
            if since <= asked_at < until and is_good(request_id):
                found.append(end - asked_at)
    return sorted(found)


def _first_in_line(
    requests: Sequence[tuple[str, _Times]],
) -> Iterator[tuple[str, _Times]]:
    busy_until: datetime | None = None
    for request_id, (asked_at, end) in sorted(requests, key=lambda one: one[1]):
        if busy_until is None or asked_at >= busy_until:
            yield request_id, (asked_at, end)
        busy_until = max(end, busy_until or end)


def percentile(times: Sequence[timedelta], share: float) -> timedelta:
    """Of sorted times, of which there is one at least."""
    return times[min(int(len(times) * share), len(times) - 1)]
