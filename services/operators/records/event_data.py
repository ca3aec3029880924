"""A record as JSON data, for programs; pure."""

from pydantic_core import to_jsonable_python

from answerbus.envelope import Undecodable
from answerbus.wire import format_timestamp
from services.operators.records.decoded import DecodedRecord
from services.operators.records.stored import RetryEnded


def as_data(seen: DecodedRecord) -> dict[str, object]:
    """A record as JSON data: where it stands, and the event."""
    return {
        "topic": seen.topic.name,
        "partition": seen.partition,
        "offset": seen.offset,
        "at": format_timestamp(seen.at),
        "kind": seen.kind,
        "event": event_data(seen),
    }


def event_data(seen: DecodedRecord) -> object:
    """The event as it is on the wire, as JSON data."""
    match seen.event:
        case Undecodable() | RetryEnded() as other:
            return to_jsonable_python(other)
        case event:
            return event.model_dump(mode="json")
