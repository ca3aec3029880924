"""Compares the replays that outcomes name with the records of operators; pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from answerbus.topics import Topic
from services.operators.audit.findings import AuditFinding
from services.operators.records.event_summary import ReplayedSummary
from services.operators.records.stored import RecordPosition


class ReplayLink(NamedTuple):
    """Of a dead letter to the request that it became; older actions do not name its workflow."""

    workflow_id: str | None
    dead_letter_id: str
    request_id: str


@dataclass(slots=True)
class ReplayLinks:
    """A dead letter is in the partition of its record, so all partitions are compared."""

    made: set[ReplayLink] = field(default_factory=set)
    claimed: dict[ReplayLink, AuditFinding] = field(default_factory=dict)

    def take(self, event: ReplayedSummary) -> None:
        self.made.add(ReplayLink(event.workflow_id, event.dead_letter_id, event.request_id))

    def claim(self, link: ReplayLink, account_id: str | None, place: RecordPosition) -> None:
        """Note the dead letter and request that a terminal event names."""
        expected = f"a `replayed` event of {link.dead_letter_id} that names {link.request_id}"
        found = AuditFinding("not_replayed", account_id, None, place, expected)
        self.claimed.setdefault(link, found)

    def ignore(self, topic: Topic) -> None:
        """Ignore this topic in every judgement."""
        self.claimed = {
            link: it for link, it in self.claimed.items() if it.place.topic is not topic
        }

    def add(self, other: "ReplayLinks") -> None:
        self.made |= other.made
        self.claimed = {**other.claimed, **self.claimed}

    def not_published(self) -> Iterator[tuple[ReplayLink, AuditFinding]]:
        """The replays that no operator made, as far as is known."""
        for link, found in self.claimed.items():
            if self.made.isdisjoint((link, link._replace(workflow_id=None))):
                yield link, found
