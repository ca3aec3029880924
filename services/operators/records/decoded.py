"""A record with its event, read whole; pure."""

from dataclasses import dataclass
from datetime import datetime

from answerbus.dead_letter import DeadLetter, Dismissed
from answerbus.envelope import Undecodable, decode
from answerbus.event import Event, request_of, workflow_of
from answerbus.outcome import Refusal, Result, RetryRequest, UnvalidatedResult
from answerbus.request import Request
from answerbus.schema_name import SchemaName, schema_name
from answerbus.topics import Topic
from services.operators.records.stored import RetryEnded, Stored


@dataclass(frozen=True, slots=True)
class DecodedRecord:
    """One record: its position, when it was written, and what it is."""

    topic: Topic
    partition: int
    offset: int
    at: datetime
    event: Event | RetryEnded | Undecodable

    @property
    def kind(self) -> str:
        """The event's kind, or what stands in for one."""
        return "undecodable" if isinstance(self.event, Undecodable) else self.event.kind

    @property
    def workflow_id(self) -> str | None:
        """The workflow, if the record says it."""
        match self.event:
            case Undecodable() as found:
                return found.workflow_id
            case RetryEnded() as found:
                return found.workflow_id
            case event:
                return workflow_of(event)

    @property
    def subject(self) -> str | None:
        """The request, or at least the dead letter, that it is about."""
        match self.event:
            case Undecodable() | RetryEnded():
                return self.event.request_id
            case Dismissed() as event:
                return event.dead_letter_id
            case event:
                return request_of(event)

    @property
    def schema_name(self) -> SchemaName | None:
        """The schema that was asked for, if the record says it."""
        match self.event:
            case Request() as event:
                return schema_name(event.answer_schema)
            case (Result() | UnvalidatedResult() | Refusal()) as event:
                return schema_name(event.answered_schema)
            case RetryRequest() as event:
                return schema_name(event.request.answer_schema)
            case DeadLetter(request=Request() as request):
                return schema_name(request.answer_schema)
            case _:
                return None


def decoded(stored: Stored) -> DecodedRecord:
    """The event of a record, or its fault; never raises."""
    return DecodedRecord(stored.topic, stored.partition, stored.offset, stored.at, _event(stored))


def _event(stored: Stored) -> Event | RetryEnded | Undecodable:
    if stored.fault is not None:
        return Undecodable((stored.fault,))
    return stored.retry_ended or decode(stored.value, stored.headers)
