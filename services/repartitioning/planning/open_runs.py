"""Finds requests with an open run or cancellation in the private records of runs; pure."""

from collections.abc import Iterable

from answerbus.private.ledger import Skipped
from answerbus.request_key import SEPARATOR
from services.operators.records.stored import Stored
from services.records.private_topics import passes_by, runs_event


def open_requests(records: Iterable[Stored]) -> list[str]:
    """Their ids, sorted; a record that an operator has passed by keeps nothing open."""
    last: dict[tuple[int, bytes], Stored] = {}
    passed: dict[tuple[int, int], list[Skipped]] = {}
    for stored in records:
        event = None if stored.value is None else runs_event(stored.value)
        if isinstance(event, Skipped):
            passed.setdefault((stored.partition, event.offset), []).append(event)
        elif stored.value is None and stored.fault is None:
            last.pop((stored.partition, stored.key or b""), None)
        else:
            last[stored.partition, stored.key or b""] = stored
    names = {
        (stored.key or b"").decode(errors="replace").partition(SEPARATOR)[0].partition("/")[0]
        for stored in last.values()
        if not any(
            passes_by(one, stored.offset, stored.value)
            for one in passed.get((stored.partition, stored.offset), ())
        )
    }
    return sorted(names)
