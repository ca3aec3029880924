"""Filters of the tail: by kind, workflow, time and text; pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from services.operators.records.event_summary import DeadLetterSummary
from services.operators.records.record_filter import RecordFilter
from services.operators.records.summary import RecordSummary


@dataclass(frozen=True, slots=True)
class TailFilter:
    """`text` is looked for in ids, labels and codes, in upper or lower case; empty is any."""

    records: RecordFilter
    text: str = ""
    since_ms: int | None = None

    def admits(self, record: RecordSummary) -> bool:
        """Whether a record is shown."""
        if self.since_ms is not None and record.at_ms < self.since_ms:
            return False
        if not self.records.admits(record):
            return False
        needle = self.text.lower()
        return not needle or any(needle in text.lower() for text in _searchable(record))


def _searchable(record: RecordSummary) -> Iterator[str]:
    yield from filter(None, (record.workflow_id, record.request_id, record.dead_letter_id))
    if isinstance(record.event, DeadLetterSummary):
        for name, value in record.event.labels.items():
            yield from (name, value)
        yield from (problem.code for problem in record.event.problems)
