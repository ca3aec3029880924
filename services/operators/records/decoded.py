"""A record on the bus as a watcher sees it, and which ones are wanted; pure."""

from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

from answerbus.dead_letter import DeadLetter, Dismissed
from answerbus.envelope import Undecodable, decode
from answerbus.event import Event, request_of, workflow_of
from answerbus.outcome import Refusal, Result, RetryRequest, UnvalidatedResult
from answerbus.request import (
    ContractId,
    ContractRef,
    InlineId,
    InlineRef,
    SchemaId,
    SchemaRef,
    TextId,
    TextRef,
)
from answerbus.topics import RETRIES, Topic
from services.operators.records.stored import Stored


@dataclass(frozen=True, slots=True)
class RetryEnded:
    """A null value in the retries: the request is no longer being retried."""

    request_id: str


@dataclass(frozen=True, slots=True)
class DecodedRecord:
    """One record: where it stands, when it was written, and what it is."""

    topic: Topic
    partition: int
    offset: int
    at: datetime
    event: Event | RetryEnded | Undecodable

    @property
    def kind(self) -> str:
        """The event's kind, or what stands in for one."""
        match self.event:
            case Undecodable():
                return "undecodable"
            case RetryEnded():
                return "retry_ended"
            case event:
                return event.kind

    @property
    def workflow_id(self) -> str | None:
        """The workflow, if the record says it."""
        match self.event:
            case Undecodable() as found:
                return found.workflow_id
            case RetryEnded():
                return None
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
    def schema(self) -> SchemaRef | SchemaId | None:
        """The schema that was asked for, if the record says it."""
        match self.event:
            case (Result() | UnvalidatedResult() | Refusal()) as event:
                return event.answered_schema
            case RetryRequest() as event:
                return event.request.answer_schema
            case DeadLetter() as event:
                return event.request.answer_schema if event.request else None
            case _:
                return None


def decoded(stored: Stored) -> DecodedRecord:
    """What a record is; never an exception."""
    return DecodedRecord(stored.topic, stored.partition, stored.offset, stored.at, _event(stored))


def _event(stored: Stored) -> Event | RetryEnded | Undecodable:
    if stored.fault is not None:
        return Undecodable((stored.fault,))
    if stored.topic is RETRIES and stored.value is None and stored.key is not None:
        return RetryEnded(stored.key.decode(errors="replace"))
    return decode(stored.value, stored.headers)


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """What someone wants to see; None is anything."""

    workflow_id: str | None = None
    contract: str | None = None
    kinds: frozenset[str] | None = None

    def admits(self, seen: DecodedRecord) -> bool:
        """Whether a record is wanted; one that does not say its workflow or contract is not."""
        return (
            (self.kinds is None or seen.kind in self.kinds)
            and self.workflow_id in (None, seen.workflow_id)
            and (self.contract is None or self.contract in _names(seen.schema))
        )


def label(schema: SchemaRef | SchemaId) -> str:
    """A schema's name for people, such as `plan_proposal.v1`, `inline search` or `text`."""
    match schema:
        case ContractRef() | ContractId():
            return f"{schema.name}.v{schema.version}"
        case InlineRef() | InlineId():
            return f"inline {schema.name}"
        case TextRef() | TextId():
            return schema.kind
        case _:
            assert_never(schema)


def _names(schema: SchemaRef | SchemaId | None) -> tuple[str, ...]:
    match schema:
        case None:
            return ()
        case TextRef() | TextId():
            return (schema.kind,)
        case _:
            return (schema.kind, schema.name, label(schema))
