"""Divides a lane's signals into small portions; after a failure, into single ones."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from aiokafka import TopicPartition

from answerbus.broker_time import moment
from answerbus.client.records.batch import Record
from answerbus.client.records.unreadable import Unreadable
from answerbus.control import Approval, Cancel
from answerbus.tool_result import ToolProgress, ToolResult
from answerbus.topics import Topic
from services.worker.core.run.tool_report import read_report
from services.worker.lane.state.signals import SignalRecord

PORTION_BYTES_MAX = 2 * 1024 * 1024  # applied in one go: each is written twice, in one transaction
PORTION_RECORDS_MAX = 50  # of any size: so many take some milliseconds, and then others have a turn


@dataclass(slots=True)
class SignalPortions:
    """Over all lanes: up to where records go one by one, and which are passed by."""

    _alone_until: dict[TopicPartition, int] = field(default_factory=dict)
    _passed_by: set[tuple[TopicPartition, int]] = field(default_factory=set)

    def of(self, place: TopicPartition, records: Sequence[Record]) -> Iterator[Sequence[Record]]:
        """Of bounded number and size; one by one up to where something failed before."""
        alone_until = self._alone_until.get(place, 0)
        together: list[Record] = []
        size = 0
        for record in records:
            size += _size(record)
            is_full = len(together) == PORTION_RECORDS_MAX or size > PORTION_BYTES_MAX
            if together and (is_full or together[-1].offset < alone_until):
                yield together
                together, size = [], _size(record)
            together.append(record)
        if together:
            yield together

    def blame(self, place: TopicPartition, together: Sequence[Record]) -> None:
        """A bug: a record that fails by itself is passed by, so that its lane does not stop."""
        self._alone_until[place] = together[-1].offset + 1
        if len(together) == 1:
            self._passed_by.add((place, together[0].offset))

    def signal(self, topic: Topic, place: TopicPartition, record: Record) -> SignalRecord:
        """A record as lanes take it, without its signal where that failed before."""
        found = signal_record(topic, place, record)
        is_passed_by = (place, record.offset) in self._passed_by
        return replace(found, signal=None) if is_passed_by else found


def _size(record: Record) -> int:
    return 0 if isinstance(record, Unreadable) else len(record.value or b"")


def signal_record(topic: Topic, place: TopicPartition, record: Record) -> SignalRecord:
    """A record as lanes take it; one that holds no signal is only passed by."""
    event = None if isinstance(record, Unreadable) else read_report(record.value)
    signal = event if isinstance(event, ToolResult | ToolProgress | Approval | Cancel) else None
    place_id = f"{place.topic}-{place.partition}-{record.offset}"
    at = None if signal is None or isinstance(record, Unreadable) else moment(record.timestamp)
    return SignalRecord(topic, record.offset, place_id, signal, at)
