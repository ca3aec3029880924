"""A timeline as rows: the gap to the row before, and repeats folded; pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from answerbus.attempt import Attempt
from answerbus.dead_letter import DeadLetter
from answerbus.failure import Failure
from answerbus.outcome import RetryRequest
from services.operators.explain import failure_text
from services.operators.timeline.entry import TimelineEntry

SAME = "the same again"
FOLDED_CHARS_MIN = 60  # what is shorter is as quickly read as that
_MS = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """`text` says nothing twice; `after_ms` is since the row before."""

    entry: TimelineEntry
    text: str
    after_ms: int | None


def timeline_rows(entries: Iterable[TimelineEntry]) -> Iterator[TimelineRow]:
    """In the order that is given."""
    shown: set[tuple[str | None, str]] = set()
    before = None
    for entry in entries:
        text = entry.text
        why = _why(entry)
        if why is not None and len(why) >= FOLDED_CHARS_MIN and text.endswith(why):
            if (entry.request_id, why) in shown:
                text = text.removesuffix(why) + SAME
            shown.add((entry.request_id, why))
        after_ms = None if before is None else max(0, (entry.at - before) // _MS)
        before = entry.at
        yield TimelineRow(entry, text, after_ms)


def _why(entry: TimelineEntry) -> str | None:
    """What the entry says of a failure, as its text has it."""
    failure: Failure | None
    match entry.seen.event:
        case Attempt(failure=found) | RetryRequest(failure=found):
            failure = found
        case DeadLetter(cause=cause):
            failure = getattr(cause, "failure", None)
        case _:
            failure = None
    return failure_text(failure) if failure else None
