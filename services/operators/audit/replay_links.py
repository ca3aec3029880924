"""Compares the replays named by terminals with the records of operators; pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from answerbus.topics import Topic
from services.operators.audit.findings import AuditFinding
from services.operators.records.event_summary import ReplayedSummary
from services.operators.records.stored import Place

Link = tuple[str, str]  # of a dead letter to the request that it became


@dataclass(slots=True)
class ReplayLinks:
    """Letters stand in the partition of their record, so those of all partitions are compared."""

    made: set[Link] = field(default_factory=set)
    claimed: dict[Link, AuditFinding] = field(default_factory=dict)

    def take(self, event: ReplayedSummary) -> None:
        self.made.add((event.dead_letter_id, event.request_id))

    def claim(self, letter_id: str, request_id: str, account_id: str | None, place: Place) -> None:
        """What a terminal event says of its request."""
        expected = f"a `replayed` event of {letter_id} that names {request_id}"
        found = AuditFinding("not_replayed", account_id, None, place, expected)
        self.claimed.setdefault((letter_id, request_id), found)

    def ignore(self, topic: Topic) -> None:
        """Judge nothing by what this topic tells."""
        self.claimed = {
            link: it for link, it in self.claimed.items() if it.place.topic is not topic
        }

    def add(self, other: "ReplayLinks") -> None:
        self.made |= other.made
        self.claimed = {**other.claimed, **self.claimed}

    def not_published(self) -> Iterator[tuple[Link, AuditFinding]]:
        """The replays that no operator made, as far as is known."""
        return ((link, found) for link, found in self.claimed.items() if link not in self.made)
