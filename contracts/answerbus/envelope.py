"""The only codec: value and headers to an event or Undecodable, and an event to a record."""

from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from itertools import islice
from typing import Any, Final, TypeVar

from pydantic import JsonValue, ValidationError
from pydantic_core import from_json, to_json

from answerbus import json_text
from answerbus.account_id import DIGEST_CHARS
from answerbus.agent import ParentId
from answerbus.dead_letter import DeadLetter
from answerbus.event import EVENT, Event, event_id, happened_at, key, request_of, workflow_of
from answerbus.fail_fast import JsonReader
from answerbus.failure import Problem
from answerbus.json_values import has_more_values, signs_of_values
from answerbus.limits import (
    EVENT_VALUES_MAX,
    KIB,
    RECORD_BYTES_MAX,
    REQUEST_BYTES_MAX,
    REQUEST_ID_CHARS_MAX,
    REQUEST_VALUES_MAX,
    WORKFLOW_ID_CHARS_MAX,
)
from answerbus.outcome import Refusal, Result, RetryRequest, UnvalidatedResult
from answerbus.private.ledger import SKIPPED_KEY
from answerbus.problems import place_of, pointer, problems_of
from answerbus.request import Request
from answerbus.schema_name import schema_name
from answerbus.wire import format_timestamp

Headers = Sequence[tuple[str, bytes | None]]

WORKER_SOURCE = "/answerbus/worker"
CLIENT_SOURCE = "/answerbus/client"
TOOLS_SOURCE = "/answerbus/tools"
REPLAY_SOURCE = "/answerbus/replay"
COMPARE_SOURCE = "/answerbus/compare"
SOURCES = (WORKER_SOURCE, CLIENT_SOURCE, TOOLS_SOURCE, REPLAY_SOURCE, COMPARE_SOURCE)
REQUEST_TYPE = b"answerbus.request.v1"
KINDS_MAX = 64  # of events, times those who write them
HEAD_BYTES = 4 * KIB  # of a body that is not read, where its ids are looked for
_ESCAPES_BYTES = len(r"\ud83d\ud83d")  # before a fault, which may be in them
UNKNOWN_FIELDS_MAX = 100  # that are named; more make no request invalid
UNKNOWN_FIELDS_LISTED_MAX = 1_000  # of more, none is named: pydantic cannot list the first alone
_EVENT = JsonReader(EVENT)
_REQUEST = JsonReader.of(Request)
_SPECVERSION = b"1.0"
_STRUCTURED = {"specversion", "data"}
_OF_OPERATORS = f"another id than {SKIPPED_KEY!r}, or a workflow id that is not a number"
_DERIVED_ACCOUNT = (
    f"`<workflow_id>~` and the first {DIGEST_CHARS} hex digits of the SHA-256 of `dead_letter_id`"
)
# Of all texts that are read for one with numbers as `3.0` or `3e0`, which JSON Schema takes for
# integers and pydantic in strict mode does not: wrong ones may show one after the other.
VALUES_MAX: Final = 40_000
_VALUES_MIN: Final = 1_000  # what reading a text counts at least

T = TypeVar("T")


def read_whole_numbers(read: Callable[[bytes], T], text: bytes) -> T:
    """What `read` makes of the text with integers where it wants them; raises its error."""
    document: Any = None
    left = VALUES_MAX
    while True:
        try:
            return read(text)
        except ValidationError as error:
            left -= max(signs_of_values(text), _VALUES_MIN)
            document = from_json(text) if document is None else document
            if left < 0 or not _put_whole_numbers(error, document):
                raise
            text = to_json(document)


def _put_whole_numbers(error: ValidationError, document: Any) -> bool:
    """Put integers where `error` wants them; whether there were any."""
    is_changed = False
    for found in error.errors(include_url=False, include_context=False, include_input=False):
        if found["type"] == "int_type":
            place, number = place_of(found["loc"], document)
            if isinstance(number, float) and number.is_integer():
                _put(document, place, int(number))
                is_changed = True
    return is_changed


def _put(document: Any, place: list[str | int], value: int) -> None:
    *outer, last = place
    for part in outer:
        document = document[part]
    document[last] = value


@dataclass(frozen=True, slots=True)
class Undecodable:
    """An invalid record; the ids are given if they could be read, and so is the `body`."""

    problems: tuple[Problem, ...]
    request_id: str | None = None
    workflow_id: str | None = None
    body: Mapping[str, JsonValue] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request, its body as it was read (digests cover unknown fields too), and those fields."""

    request: Request
    body: JsonValue
    unknown_fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Encoded:
    """A record, ready for a producer: the caller names topic and partition."""

    key: bytes
    value: bytes
    headers: list[tuple[str, bytes]]


def decode(
    value: bytes | None, _: Headers = (), *, values_max: int = EVENT_VALUES_MAX
) -> Event | Undecodable:
    """Reads any event of ours; the body is complete in itself, so headers are not looked at."""
    parsed = _object(value, RECORD_BYTES_MAX, values_max)
    return parsed if isinstance(parsed, Undecodable) else _event(parsed, value or b"")


def decode_body(body: dict[str, JsonValue]) -> Event | Undecodable:
    """The event that a body is."""
    return _event(body, to_json(body))


def _event(body: dict[str, JsonValue], text: bytes) -> Event | Undecodable:
    try:
        return read_whole_numbers(_EVENT.validate_json, text)
    except ValidationError as error:
        return _undecodable(body, problems_of(error, body))


def decode_request(value: bytes | None, headers: Headers = ()) -> ReceivedRequest | Undecodable:
    """Reads a record of the requests topic.

    Headers are optional; those that claim another type than the body's are a contradiction, and
    are not guessed about. A replay is charged to the account of its dead letter and to no other.
    """
    parsed = _object(value, REQUEST_BYTES_MAX, REQUEST_VALUES_MAX)
    if isinstance(parsed, Undecodable):
        return parsed
    contradiction = _contradiction(headers)
    if contradiction:
        return _undecodable(parsed, (contradiction,))
    # A default serves those who write; and in structured mode `kind` is an attribute.
    if "kind" not in parsed or parsed.keys() >= _STRUCTURED:
        return _undecodable(parsed, (_without_kind(parsed),))
    received = _request(value or b"", parsed)
    if isinstance(received, ReceivedRequest) and (fault := _foreign_name(received.request)):
        return _undecodable(parsed, (fault,))
    return received


def _request(text: bytes, parsed: dict[str, JsonValue]) -> ReceivedRequest | Undecodable:
    """The body stays as it came: for its digest `3` and `3.0` are the same."""
    try:
        return ReceivedRequest(_REQUEST.validate_json(text, extra="forbid"), parsed, ())
    except ValidationError as error:
        unknown = tuple(islice(_unknown_fields(error, parsed), UNKNOWN_FIELDS_MAX))
    try:
        return ReceivedRequest(read_whole_numbers(_REQUEST.validate_json, text), parsed, unknown)
    except ValidationError as error:
        return _undecodable(parsed, problems_of(error, parsed))


def _unknown_fields(error: ValidationError, parsed: JsonValue) -> Iterator[str]:
    if error.error_count() > UNKNOWN_FIELDS_LISTED_MAX:
        return
    for found in error.errors(include_url=False, include_input=False, include_context=False):
        if found["type"] == "extra_forbidden":
            yield pointer(place_of(found["loc"], parsed)[0])


def _foreign_name(request: Request) -> Problem | None:
    """The account of a replay is not chosen: it could charge the budget of another.

    Nor is the record key of an operator: compaction would remove what one of the two has written.
    """
    if request.request_id == SKIPPED_KEY and request.workflow_id.isdecimal():
        return Problem.of("/request_id", "reserved", _OF_OPERATORS)
    if request.replay is None or request.replay.account == request.account_id:
        return None
    return Problem.of("/replay/account", "foreign_account", _DERIVED_ACCOUNT)


def encode(
    event: Event, *, source: str = WORKER_SOURCE, trace: Mapping[str, str] | None = None
) -> Encoded:
    """Writes an event as a CloudEvent in binary mode; `trace` is `traceparent` and `tracestate`."""
    return Encoded(
        key=key(event).encode(),
        value=_body(event),
        headers=headers_of(
            event.kind,
            source,
            ce_id=event_id(event),
            ce_time=_time(happened_at(event)),
            ce_subject=workflow_of(event),
            ce_requestid=request_of(event),
            **_headers_of_answer(event),
            **(trace or {}),
        ),
    )


def _body(event: Event) -> bytes:
    """A request without a budget adds to its workflow's, and no default may replace one."""
    left_out = {"budget"} if isinstance(event, Request) and not event.names_budget else None
    # `model_dump_json` copies these bytes to a text, and that would be copied to bytes again.
    return event.__pydantic_serializer__.to_json(event, exclude=left_out)


def headers_of(
    kind: str, source: str = WORKER_SOURCE, *, ce_subject: str | None, **more: str | None
) -> list[tuple[str, bytes]]:
    """The headers of an event of that kind; `ce_subject` is the workflow."""
    headers = [*_headers_of_kind(kind, source)]
    if ce_subject is not None:
        workflow = ce_subject.encode()
        headers += (("ce_subject", workflow), ("ce_partitionkey", workflow))
    headers += [(name, text.encode()) for name, text in more.items() if text is not None]
    return headers


@lru_cache(KINDS_MAX)
def _headers_of_kind(kind: str, source: str) -> tuple[tuple[str, bytes], ...]:
    return (
        ("ce_specversion", _SPECVERSION),
        ("ce_type", f"answerbus.{kind}.v1".encode()),
        ("ce_source", source.encode()),
        ("ce_dataschema", f"urn:answerbus:event:{kind}.v1".encode()),
        ("content-type", b"application/json"),
    )


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else format_timestamp(moment)


def _headers_of_answer(event: Event) -> Mapping[str, str | None]:
    match event:
        case Result() | Refusal() | UnvalidatedResult():
            answer = None if isinstance(event, UnvalidatedResult) else event.answer
            return {
                "ce_contract": schema_name(event.answered_schema).header,
                "ce_variant": _tag(answer),
                "ce_parentid": _id_of(event.parent),
            }
        case Request():
            return {"ce_contract": schema_name(event.answer_schema).header}
        case RetryRequest():
            return {"ce_contract": schema_name(event.request.answer_schema).header}
        case DeadLetter():
            return {"ce_cause": event.cause.kind, "ce_parentid": _id_of(event.parent)}
        case _:
            return {}


def _id_of(parent: ParentId | None) -> str | None:
    return None if parent is None else parent.request_id


def _tag(answer: JsonValue) -> str | None:
    tag = answer.get("kind") if isinstance(answer, dict) else None
    return tag if isinstance(tag, str) and tag.isascii() and tag.isprintable() else None


def _object(
    value: bytes | None, bytes_max: int, values_max: int
) -> dict[str, JsonValue] | Undecodable:
    """The body; one that is larger is not read."""
    if value is None:
        return Undecodable((Problem.of("", "null_value", "a value with a JSON object"),))
    if len(value) > bytes_max:
        expected, found = f"at most {bytes_max:,} bytes", f"{len(value):,} bytes"
        return _unread(value, Problem.of("", "too_large", expected, found=found))
    if has_more_values(value, values_max):
        expected = f"at most {values_max:,} JSON values"
        return _unread(value, Problem.of("", "too_many_values", expected))
    match json_text.parse_counted(value):
        case json_text.Parsed(value=dict() as body):
            return body
        case json_text.Parsed():
            return Undecodable((Problem.of("", "not_an_object", "a JSON object"),))
        case json_text.NotJson() as fault:
            expected = fault.reason + (f" (byte {fault.position})" if fault.position else "")
            return _unread(value, Problem.of("", "not_json", expected), fault.position)


def _unread(value: bytes, problem: Problem, fault_at: int = 0) -> Undecodable:
    """The ids are given if the body begins with them, also where a fault follows."""
    before = min(fault_at or HEAD_BYTES, HEAD_BYTES)
    for end in (HEAD_BYTES, before, max(before - _ESCAPES_BYTES, 0)):
        with suppress(ValueError):
            text = value[:end].removeprefix(BOM_UTF8)
            head = from_json(text, allow_inf_nan=False, allow_partial=True)
            return _undecodable(head if isinstance(head, dict) else {}, (problem,))
    return _undecodable({}, (problem,))


def _without_kind(parsed: Mapping[str, JsonValue]) -> Problem:
    if "specversion" in parsed:
        return Problem.of("", "structured_mode", "the request itself: CloudEvents in binary mode")
    return Problem.of("/kind", "missing", "`kind`: request")


def _contradiction(headers: Headers) -> Problem | None:
    """A record with `ce_specversion` claims to be a CloudEvent, and is held to what that means."""
    first: dict[str, bytes | None] = {}
    for name, content in headers:
        first.setdefault(name, content)
    if "ce_specversion" not in first and "ce_type" not in first:
        return None
    if first.get("ce_specversion", _SPECVERSION) != _SPECVERSION:
        return Problem.of("", "ce_specversion", "`ce_specversion` 1.0, or no such header")
    if first.get("ce_type") != REQUEST_TYPE:
        return Problem.of("", "ce_type", f"`ce_type` {REQUEST_TYPE.decode()}, or no ce_ headers")
    return None


def _undecodable(body: Mapping[str, JsonValue], problems: tuple[Problem, ...]) -> Undecodable:
    return Undecodable(
        problems,
        _text(body, "request_id", REQUEST_ID_CHARS_MAX),
        _text(body, "workflow_id", WORKFLOW_ID_CHARS_MAX),
        body,
    )


def _text(body: Mapping[str, JsonValue], name: str, limit: int) -> str | None:
    found = body.get(name)
    return found if isinstance(found, str) and 0 < len(found) <= limit else None
