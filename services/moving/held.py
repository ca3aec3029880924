"""What one partition holds that belongs elsewhere when the number of partitions changes; pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import ValidationError

from answerbus.envelope import Encoded, Undecodable, decode, encode
from answerbus.ledger import LEDGER_RECORD, AccountRecord, ClosedRecord, LedgerRecord
from answerbus.outcome import RetryRequest
from answerbus.partition import partition_of
from answerbus.topics import LEDGER, RETRIES, Topic
from services.reading.stored import Stored
from services.worker.core.ledger import Ledger
from services.worker.ports import OutRecord


class UnreadableRecord(Exception):
    """A record of the ledger or of the retries that this version does not understand."""


@dataclass(slots=True)
class Held:
    """The last record of each key in one partition of ledger and retries."""

    partition: int
    _last: dict[tuple[Topic, bytes], Stored] = field(default_factory=dict)

    def take(self, stored: Stored) -> None:
        """The next record; a null value ends its key."""
        key = stored.topic, stored.key or b""
        self._last.pop(key, None)
        if stored.value is not None:
            self._last[key] = stored

    def places(self) -> Ledger:
        """What is closed by its place: a record of this partition that is not to be read again."""
        ledger = Ledger()
        for (topic, _), stored in self._last.items():
            record = _ledger_record(stored) if topic is LEDGER else None
            if isinstance(record, ClosedRecord) and record.workflow_id is None:
                ledger.restore(record)
        return ledger

    def moves(
        self, partitions: int, committed: int, now: datetime
    ) -> Iterator[tuple[OutRecord, OutRecord]]:
        """Each record that another partition owns: as it is written there, and its end here.

        Raises UnreadableRecord. `committed` is the group's offset in the requests topic.
        """
        for (topic, key), stored in self._last.items():
            moved = _moved(stored, committed, now)
            if moved is None:
                continue
            workflow_id, encoded = moved
            owner = partition_of(workflow_id, partitions)
            if owner != self.partition:
                yield (
                    OutRecord(topic, owner, key, encoded.value, encoded.headers),
                    OutRecord(topic, self.partition, key, None, []),
                )


def _moved(stored: Stored, committed: int, now: datetime) -> tuple[str, Encoded] | None:
    """The workflow and the record for its new place; None for what belongs to its partition."""
    as_it_is = Encoded(
        stored.key or b"",
        stored.value or b"",
        [(name, value) for name, value in stored.headers if value is not None],
    )
    if stored.topic is RETRIES:
        return _retry(stored).workflow_id, as_it_is
    record = _ledger_record(stored)
    if isinstance(record, AccountRecord):
        return record.workflow_id, as_it_is
    if isinstance(record, ClosedRecord) and record.workflow_id is not None:
        return record.workflow_id, encode(_closed(record, committed, now))
    return None  # it is about this very partition


def _closed(record: ClosedRecord, committed: int, now: datetime) -> ClosedRecord:
    """An offset means nothing in another partition.

    A request whose record may be read again must be known there when it arrives, however long ago
    it was closed: it is kept for as long as one that was closed now.
    """
    at = now if record.offset >= committed else record.at
    return record.model_copy(update={"offset": 0, "at": at})


def _ledger_record(stored: Stored) -> LedgerRecord:
    try:
        return LEDGER_RECORD.validate_json(stored.value or b"")
    except ValidationError as error:
        raise _unreadable(stored) from error


def _retry(stored: Stored) -> RetryRequest:
    event = decode(stored.value, stored.headers)
    if isinstance(event, Undecodable) or not isinstance(event, RetryRequest):
        raise _unreadable(stored)
    return event


def _unreadable(stored: Stored) -> UnreadableRecord:
    return UnreadableRecord(
        f"The record at offset {stored.offset} of {stored.topic.name}, partition "
        f"{stored.partition}, is none that this version understands."
    )
