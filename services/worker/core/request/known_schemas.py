"""Requests that carry a schema whose text is known: it is parsed, checked and digested once."""

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import Any, Final

from msgspec import DecodeError, Raw
from msgspec.json import Decoder
from pydantic import JsonValue

from answerbus.envelope import Headers, ReceivedRequest, Undecodable, decode_request
from answerbus.json_values import has_more_values
from answerbus.limits import KIB, REQUEST_BYTES_MAX, REQUEST_VALUES_MAX
from answerbus.request import InlineRef
from answerbus.wire import bytes_digest
from services.text.digest import canonical, canonical_digest

TEXT_BYTES_MIN: Final = 1 * KIB  # shorter texts are read as fast as they are found
TEXTS_BYTES_MAX: Final = 2048 * KIB  # of all; their values take some 15 times as much

_MEMBERS = Decoder(dict[str, Raw])
_PLACEHOLDER = b"true"  # a schema, too, but none of TEXT_BYTES_MIN
_BEGINNING = 64  # bytes, by which a text is found much faster than by all of it


@dataclass(frozen=True, slots=True)
class _Schema:
    value: dict[str, JsonValue]  # shared by all requests that carry it
    canonical: Raw


@dataclass(slots=True)
class KnownSchemas:
    """The least recently used give way."""

    bytes_max: int = TEXTS_BYTES_MAX
    texts_bytes: int = 0  # that are known
    _known: OrderedDict[bytes, _Schema] = field(default_factory=OrderedDict)

    def decode(
        self, value: bytes | None, headers: Headers = ()
    ) -> tuple[ReceivedRequest | Undecodable, str]:
        """See `decode_request`; and the digest of the body, or of the bytes if it has none."""
        text = _schema_text(value or b"")
        if value and text and (schema := self._known.get(text)):
            self._known.move_to_end(text)
            if found := _with_placeholder(value, text, schema, headers):
                return found
        decoded = decode_request(value, headers)
        if isinstance(decoded, Undecodable):
            return decoded, bytes_digest(value or b"")
        if text:
            self._learn(text, decoded)
        return decoded, canonical_digest(decoded.body)

    def _learn(self, text: bytes, decoded: ReceivedRequest) -> None:
        match decoded.body:
            case {"answer_schema": {"kind": "inline", "json_schema": dict(value)}}:
                pass
            case _:
                return
        if text in self._known or len(text) > self.bytes_max:
            return
        self._known[text] = _Schema(value, Raw(canonical(value)))
        self.texts_bytes += len(text)
        while self.texts_bytes > self.bytes_max:
            oldest, _ = self._known.popitem(last=False)
            self.texts_bytes -= len(oldest)


def _schema_text(value: bytes) -> bytes | None:
    """The text of an inline schema, where it is worth looking up."""
    if len(value) < TEXT_BYTES_MIN or b"json_schema" not in value:
        return None
    if len(value) > REQUEST_BYTES_MAX or has_more_values(value, REQUEST_VALUES_MAX):
        return None
    try:
        outer = _MEMBERS.decode(value).get("answer_schema")
        inner = None if outer is None else _MEMBERS.decode(outer).get("json_schema")
    except (DecodeError, RecursionError, UnicodeDecodeError):
        return None
    text = None if inner is None else bytes(inner)
    return text if text and len(text) >= TEXT_BYTES_MIN else None


def _with_placeholder(
    value: bytes, text: bytes, schema: _Schema, headers: Headers
) -> tuple[ReceivedRequest, str] | None:
    """The request, read without the text of its schema; None where it must be read as a whole."""
    start = value.find(text[:_BEGINNING])
    end = start + len(text)
    if value[start:end] != text:
        return None  # another text begins like it
    found = decode_request(value[:start] + _PLACEHOLDER + value[end:], headers)
    if isinstance(found, Undecodable):
        return None
    ref = found.request.answer_schema
    if not isinstance(ref, InlineRef) or ref.json_schema is not True:
        return None  # the same text occurs before it, such as in an unknown member
    # Not validated again: this text was, at this place, when it became known.
    ref = ref.model_copy(update={"json_schema": schema.value})
    request = found.request.model_copy(update={"answer_schema": ref})
    digest = canonical_digest(_with_schema(found.body, schema.canonical))
    return replace(found, request=request, body=_with_schema(found.body, schema.value)), digest


def _with_schema(body: Any, schema: object) -> Any:
    return {**body, "answer_schema": {**body["answer_schema"], "json_schema": schema}}
