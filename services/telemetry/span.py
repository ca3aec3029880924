"""A span, as an exporter takes it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from answerbus.trace import Trace

Attributes = Mapping[str, str | int | float | bool | Sequence[str]]


@dataclass(frozen=True, slots=True)
class Span:
    """Something that is over; `trace` names the span itself, `parent` who caused it."""

    name: str
    kind: Literal["client", "consumer", "internal"]
    trace: Trace
    parent: Trace | None
    start: datetime
    end: datetime
    attributes: Attributes
    failed: bool
