"""What the stub saw of each call, in its own words."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.arithmetic import Span

MARK, MARK_END = b"[[call ", b"]]"  # round a request's id, anywhere in a prompt
HUNG_UP = 0  # the status of a call whose caller went away


@dataclass(frozen=True, slots=True)
class Call:
    """One call; times are the machine's wall clock, in seconds."""

    request_id: str
    span: Span
    status: int

    @property
    def is_refused(self) -> bool:
        """Whether the stub did no work on it."""
        return self.status in {429, 503}


def read(journal: Path) -> list[Call]:
    """All calls that are over, in the order in which they ended."""
    return [_call(line) for line in journal.read_text().splitlines()]


def spans(calls: Iterable[Call]) -> list[Span]:
    """When the stub was at work."""
    return [call.span for call in calls if not call.is_refused]


def _call(line: str) -> Call:
    request_id, arrived, ended, status = line.split("\t")
    return Call(request_id, Span(float(arrived), float(ended)), int(status))
