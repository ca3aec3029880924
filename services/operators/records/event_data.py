"""A record as JSON data, for programs; pure."""

from pydantic_core import to_jsonable_python

from answerbus.envelope import Undecodable
from answerbus.wire import format_timestamp
from services.operators.records.decoded import DecodedRecord
from services.operators.records.stored import RetryEnded


def as_data(record: DecodedRecord) -> dict[str, object]:
    """A record as JSON data: its position, and the event."""
    return {
        "topic": record.topic.name,
        "partition": record.partition,
        "offset": record.offset,
        "at": format_timestamp(record.at),
        "kind": record.kind,
        "event": event_data(record),
    }


def event_data(record: DecodedRecord) -> object:
    """The event as it is on the wire, as JSON data."""
    match record.event:
        case Undecodable() | RetryEnded() as other:
            return to_jsonable_python(other, exclude={"body"})  # what was read of it
        case event:
            return event.model_dump(mode="json")
