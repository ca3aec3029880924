"""A request that a run asks: its lane keeps it, and it is not published."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tests.chaos.audit.canonical import moment

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Child:
    """`body_digest` is None where only its letter tells of it."""

    body: Json
    asked_at: datetime
    body_digest: str | None

    @property
    def deadline(self) -> datetime:
        """When it has run out of time."""
        return self.asked_at + timedelta(seconds=self.body["ttl_s"])


def child_of_record(record: Json) -> Child:
    """As its run asked it."""
    asked_at = moment(record["origin"]["timestamp"])
    return Child(record["request"], asked_at, record["body_digest"])


def child_of_dead_letter(dead_letter: Json) -> Child:
    """As its dead letter repeats it."""
    return Child(dead_letter["request"], moment(dead_letter["origin"]["timestamp"]), None)
