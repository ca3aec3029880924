"""Records of the private topics: their content, or the reason why no worker can read them.

Pure. Workers and operators' commands ask the same question here, and so get the same answer.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, assert_never

from pydantic import Field, ValidationError

from answerbus import json_text
from answerbus.envelope import Undecodable, decode
from answerbus.fail_fast import JsonReader
from answerbus.limits import RECORD_BYTES_MAX, TTL_S_MAX
from answerbus.outcome import RetryRequest
from answerbus.private.ledger import (
    LANE_VERSION,
    LEDGER_RECORD,
    LEDGER_VERSION,
    ClosedIdsRecord,
    LedgerRecord,
    Skipped,
)
from answerbus.private.runs import (
    RunCallRecord,
    RunCancelRecord,
    RunChildRecord,
    RunRecord,
    RunsRecord,
    RunStepRecord,
)
from answerbus.schema_export import event_models
from answerbus.topics import LEDGER, Topic
from answerbus.wire import bytes_digest

_TTL_MAX = timedelta(seconds=TTL_S_MAX)
_EXCERPT_BYTES = 120
_TOO_LATE = "a deadline beyond the year 9999"
_LEDGER = JsonReader(LEDGER_RECORD)
_RUNS = JsonReader.of(Annotated[RunsRecord | Skipped, Field(discriminator="kind")])
_YEARS = range(1970, 9000)


@dataclass(frozen=True, slots=True)
class RecordFault:
    """Why a record cannot be read. `is_newer`: a newer version of answerbus has written it."""

    text: str
    is_newer: bool = False


def private_event(topic: Topic, value: bytes) -> LedgerRecord | RetryRequest | RecordFault:
    """The content of a record of the ledger or of the retries, if it has a value."""
    return _of_ledger(value) if topic is LEDGER else _of_retries(value)


def runs_event(value: bytes) -> RunsRecord | Skipped | RecordFault:
    """The content of a record of an open run, if it has a value."""
    try:
        event = _RUNS.validate_json(value)
    except ValidationError as error:
        reason = error.errors(include_url=False, include_input=False)[0]["msg"]
        return RecordFault(reason, _is_newer(value))
    return event if _can_be_waited_for(event) else RecordFault(_TOO_LATE)


def passes_by(skipped: Skipped, offset: int, value: bytes | None) -> bool:
    """Whether an operator meant this very record."""
    return skipped.offset == offset and skipped.digest == bytes_digest(value or b"")


def excerpt(content: bytes | None) -> str:
    """The beginning of a key or a value, in ASCII alone: a terminal shows it as it is."""
    if content is None:
        return "null"
    message = ascii(content[:_EXCERPT_BYTES].decode(errors="backslashreplace"))
    return message + ("…" if len(content) > _EXCERPT_BYTES else "")


def _of_ledger(value: bytes) -> LedgerRecord | RecordFault:
    """Only workers may write here, so the strict and slower reader of JSON is not needed."""
    try:
        event = _LEDGER.validate_json(value)
    except ValidationError as error:
        reason = error.errors(include_url=False, include_input=False)[0]["msg"]
        return RecordFault(reason, _is_newer(value))
    if isinstance(event, ClosedIdsRecord) and not _has_usual_times(event):
        return RecordFault("closed ids with an impossible time")
    return event


def _has_usual_times(record: ClosedIdsRecord) -> bool:
    """Times are moved by what clocks are off, and must not leave the calendar by that."""
    return all(it.year in _YEARS for it in (record.since, record.until, record.at))


def _of_retries(value: bytes) -> RetryRequest | Skipped | RecordFault:
    """Of any number of values: requests of a version without that limit may still be open."""
    event = decode(value, values_max=RECORD_BYTES_MAX)
    match event:
        case RetryRequest():
            return event if _has_deadline(event.origin.timestamp) else RecordFault(_TOO_LATE)
        case Skipped():
            return event
        case Undecodable():
            return RecordFault(f"expected {event.problems[0].expected}", _is_newer(value))
        case _:
            return RecordFault(f"a {event.kind}, which does not belong here")


def _can_be_waited_for(record: RunsRecord | Skipped) -> bool:
    """Whether the deadline of a run, or the time of its tool call, is a date."""
    match record:
        case RunRecord() | RunChildRecord():
            return _has_deadline(record.origin.timestamp)
        case RunCallRecord():
            return record.called_at is None or _has_deadline(record.called_at)
        case RunStepRecord() | RunCancelRecord() | Skipped():
            return True
        case _:
            assert_never(record)


def _has_deadline(begins: datetime) -> bool:
    try:
        begins + _TTL_MAX
    except OverflowError:
        return False
    return True


def _is_newer(value: bytes) -> bool:
    """Whether it looks like a record of ours of a version or a kind that is not known yet."""
    match json_text.parse(value):
        case json_text.Parsed(value={"kind": str(kind), "v": int(version)}):
            newest = LANE_VERSION if kind == "lane" else LEDGER_VERSION
            return version > newest or kind not in event_models()
        case json_text.Parsed(value={"kind": str(kind), "event_id": str()}):
            return kind not in event_models()
        case _:
            return False
