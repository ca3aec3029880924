"""The records of one partition that belong elsewhere after a change of the number; pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from answerbus.envelope import Encoded, encode
from answerbus.outcome import RetryRequest
from answerbus.partition import partition_of
from answerbus.private.ledger import (
    AccountRecord,
    ClosedIdsRecord,
    ClosedRecord,
    LedgerRecord,
    Skipped,
)
from answerbus.topics import Topic
from services.operators.records.stored import Stored
from services.records.private_topics import Fault, private_event
from services.repartitioning.planning.closed_ids import divided, places_of
from services.text.digest import bytes_digest
from services.worker.core.budget.ledger import Ledger
from services.worker.ports import OutRecord

_Private = LedgerRecord | RetryRequest


class UnreadableRecord(Exception):
    """A record of the ledger or of the retries that this version does not understand."""


@dataclass(slots=True)
class PartitionContents:
    """The last record of each key in one partition of ledger and retries."""

    partition: int
    _last: dict[tuple[Topic, bytes], tuple[Stored, _Private]] = field(default_factory=dict)
    _unreadable: dict[tuple[Topic, int, str], str] = field(default_factory=dict)

    def take(self, stored: Stored) -> None:
        """The next record; a null value ends its key, and one may pass another by."""
        key = stored.topic, stored.key or b""
        if stored.value is None:
            self._last.pop(key, None)
            return
        event = private_event(stored.topic, stored.value)
        match event:
            case Fault(text=text):
                place = stored.topic, stored.offset, bytes_digest(stored.value)
                self._unreadable[place] = text
            case Skipped(offset=offset, digest=digest):
                self._unreadable.pop((stored.topic, offset, digest), None)
            case _:
                self._last.pop(key, None)
                self._last[key] = stored, event

    def places(self) -> Ledger:
        """What is closed by its place: a record of this partition that is not to be read again."""
        ledger = Ledger()
        for _, event in self._last.values():
            if isinstance(event, ClosedRecord) and event.is_place:
                ledger.restore(event)
            elif isinstance(event, ClosedIdsRecord):
                ledger.restore(places_of(event))
        return ledger

    def check(self) -> None:
        """Raises UnreadableRecord for one that no operator has passed by."""
        for (topic, offset, _), why in self._unreadable.items():
            raise UnreadableRecord(
                f"{topic.name}, partition {self.partition}, offset {offset}, cannot be read: "
                f"{why}; see `answerbus lanes show`, and `lanes skip`, which passes it by."
            )

    def moves(
        self, partitions: int, committed: int, now: datetime
    ) -> Iterator[tuple[OutRecord, ...]]:
        """Each record that another partition owns: as it is written there, and its end here.

        A chunk of closed ids is divided among their owners, and what is left of it written anew.

        `committed` is the group's offset in the requests topic.
        """
        for (topic, key), (stored, event) in self._last.items():
            if isinstance(event, ClosedIdsRecord):
                yield from divided(self.partition, stored, event, partitions, committed, now)
                continue
            moved = _moved(stored, event, committed, now)
            if moved is None:
                continue
            workflow_id, encoded = moved
            owner = partition_of(workflow_id, partitions)
            if owner != self.partition:
                yield (
                    OutRecord(topic, owner, key, encoded.value, encoded.headers),
                    OutRecord(topic, self.partition, key, None, []),
                )


def _moved(
    stored: Stored, event: _Private, committed: int, now: datetime
) -> tuple[str, Encoded] | None:
    """The workflow and the record for its new place; None for what belongs to its partition."""
    if isinstance(event, ClosedRecord) and event.workflow_id is not None:
        return event.workflow_id, encode(_closed(event, committed, now))
    if not isinstance(event, AccountRecord | RetryRequest):
        return None
    headers = [(name, value) for name, value in stored.headers if value is not None]
    return event.workflow_id, Encoded(stored.key or b"", stored.value or b"", headers)


def _closed(record: ClosedRecord, committed: int, now: datetime) -> ClosedRecord:
    """An offset means nothing in another partition.

    A request whose record may be read again must be known there when it arrives, however long ago
    it was closed: it is kept for as long as one that was closed now.
    """
    at = now if record.offset >= committed else record.at
    return record.model_copy(update={"offset": 0, "at": at})
