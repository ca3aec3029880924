"""The few fields of a record that the console counts and lists, read without the rest; pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from answerbus.topics import RETRIES, TOPIC_OF_KIND
from services.operators.records.stored import Place, Stored

UNDECODABLE = "undecodable"
RETRY_ENDED = "retry_ended"
TEXT_CHARS_MAX = 1_024  # of an id or a name: strangers write requests, and summaries are kept

_Text = Annotated[str, Field(max_length=TEXT_CHARS_MAX)]


@dataclass(frozen=True, slots=True)
class RecordSummary:
    """One record: where it stands, what it is about and how it went; nothing that was said in it.

    `model` and `profile` are given where the record names them; tokens are input and output.
    """

    place: Place
    at_ms: int
    kind: str
    workflow_id: str | None = None
    request_id: str | None = None
    dead_letter_id: str | None = None
    schema: str | None = None
    profile: str | None = None
    model: str | None = None
    attempt: int | None = None
    outcome: str | None = None
    why: str | None = None
    tokens: int = 0
    micro_usd: int = 0
    duration_ms: int | None = None
    account_id: str | None = None
    in_flight: int = 0
    worker: str | None = None
    openings: int = 0


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class _Kind(_Part):
    kind: _Text


class _Schema(_Kind):
    name: _Text | None = None
    version: int | None = None


class _Model(_Part):
    profile: _Text
    model: _Text


class _Usage(_Part):
    input_tokens: int | None = None
    output_tokens: int | None = None
    micro_usd: int | None = None


class _Asked(_Part):
    answer_schema: _Schema
    profile: _Text = "default"


class _Body(_Kind):
    """What is looked for in the body of any event; all else is skipped, which is what is fast."""

    workflow_id: _Text | None = None
    request_id: _Text | None = None
    dead_letter_id: _Text | None = None
    answered_schema: _Schema | None = Field(default=None, alias="schema")
    answer_schema: _Schema | None = None
    request: _Asked | None = None
    profile: _Text | None = None
    model: _Model | None = None
    attempt: int | None = None
    next_attempt: int | None = None
    outcome: _Text | None = None
    cause: _Kind | None = None
    failure: _Kind | None = None
    usage: _Usage | None = None
    duration_ms: int | None = None
    account_id: _Text | None = None
    in_flight: Sequence[Any] = ()
    worker: _Text | None = None
    openings_without_progress: int = 0


def summarize(stored: Stored) -> RecordSummary:
    """What a record is about; never an exception."""
    if stored.value is None:
        ended = stored.topic is RETRIES and stored.key is not None
        request_id = (stored.key or b"").decode(errors="replace") if ended else None
        kind = RETRY_ENDED if ended else UNDECODABLE
        return RecordSummary(stored.place, stored.at_ms, kind, request_id=request_id)
    try:
        body = _Body.model_validate_json(stored.value)
    except ValidationError:
        return RecordSummary(stored.place, stored.at_ms, UNDECODABLE)
    if TOPIC_OF_KIND.get(body.kind) is not stored.topic:  # anybody may claim to be a result
        return RecordSummary(stored.place, stored.at_ms, UNDECODABLE)
    return _summary_of(stored, body)


def _summary_of(stored: Stored, body: _Body) -> RecordSummary:
    asked, model, usage = body.request, body.model, body.usage
    schema = body.answered_schema or body.answer_schema or (asked.answer_schema if asked else None)
    why = body.cause or body.failure
    return RecordSummary(
        stored.place,
        stored.at_ms,
        body.kind,
        body.workflow_id,
        body.request_id,
        body.dead_letter_id,
        _label(schema) if schema else None,
        model.profile if model else (asked.profile if asked else body.profile),
        model.model if model else None,
        body.attempt or body.next_attempt,
        body.outcome,
        why.kind if why else None,
        ((usage.input_tokens or 0) + (usage.output_tokens or 0)) if usage else 0,
        (usage.micro_usd or 0) if usage else 0,
        body.duration_ms,
        body.account_id,
        len(body.in_flight),
        body.worker,
        body.openings_without_progress,
    )


def _label(schema: _Schema) -> str:
    match schema.kind:
        case "contract":
            return f"{schema.name}.v{schema.version}"
        case "inline":
            return f"inline {schema.name}"
        case kind:
            return kind
