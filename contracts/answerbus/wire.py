"""How every object on the wire behaves: frozen, strict, tolerant of fields it does not know."""

import hashlib
from datetime import UTC, datetime
from functools import lru_cache
from operator import not_
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    PlainSerializer,
)
from pydantic_core import CoreSchema, PydanticCustomError

from answerbus import limits
from answerbus.strictness import read_python_as_json

FORMATTED_MAX = 1_024  # moments; the events of one decision share a few


def bytes_digest(data: bytes) -> str:
    """A `Digest`: `sha256:` and 64 hexadecimal digits."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Wire(BaseModel):
    """The parent of all events and their parts.

    `extra` is left unset on purpose: readers ignore what they do not know, and the one place that
    wants to name such fields (`envelope.decode_request`) asks for it by argument.
    """

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        serialize_by_alias=True,
        validate_by_alias=True,
        validate_by_name=True,
        ser_json_inf_nan="constants",  # which no reader takes; the default writes null instead
    )

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[BaseModel], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """See strictness.py."""
        return read_python_as_json(handler(source), handler)


class RequestPart(Wire):
    """A request or a part of one, which programs write: there an unknown member is a mistake.

    `Budget(usd=1)` would have no limit in dollars. Only calls of the class are so strict, also with
    dicts for parts: what is read, by validation, may have members of newer senders. A subclass
    declares its own members; `extra` in its `model_config` holds for what is read alone.
    """

    def __init__(self, /, **members: Any) -> None:
        self.__pydantic_validator__.validate_python(members, self_instance=self, extra="forbid")

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]  # reading does not call it


def to_utc_milliseconds(moment: datetime) -> datetime:
    """The moment as records have it."""
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    elif moment.microsecond % 1000 == 0:
        return moment
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def _received(moment: datetime) -> datetime:
    """Pydantic would let an OverflowError pass, and who reads any record would end by it."""
    try:
        return to_utc_milliseconds(moment)
    except OverflowError:
        raise PydanticCustomError(
            "timestamp_range", "a time that lies in the years 1 to 9999 of UTC"
        ) from None


@lru_cache(FORMATTED_MAX)
def format_timestamp(moment: datetime) -> str:
    """RFC 3339 in UTC with milliseconds, such as `2026-11-21T10:00:00.000Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds")[: -len("+00:00")] + "Z"


def at_most_bytes(limit: int) -> AfterValidator:
    """A bound on the UTF-8 length of a text: what a broker counts is bytes, not characters."""

    def check(text: str) -> str:
        if len(text.encode()) > limit:
            raise PydanticCustomError(
                "too_long", "at most {limit} bytes of UTF-8", {"limit": limit}
            )
        return text

    return AfterValidator(check)


def clip(text: str, limit: int) -> str:
    """`text` cut to `limit` bytes of UTF-8, between characters; the cut shows as an ellipsis."""
    encoded = text.encode(errors="replace")
    if len(encoded) <= limit:
        return encoded.decode()
    return encoded[: limit - 3].decode(errors="ignore") + "…"


def _in_64_bits(number: int) -> int:
    return max(-limits.AMOUNT_MAX - 1, min(number, limits.AMOUNT_MAX))


IN_64_BITS = AfterValidator(_in_64_bits)
"""Marks an integer of a request that events repeat: their readers have 64 bits for it."""

Timestamp = Annotated[
    AwareDatetime,
    AfterValidator(_received),
    PlainSerializer(format_timestamp, return_type=str, when_used="json"),
]
RequestId = Annotated[
    str, Field(min_length=1, max_length=limits.REQUEST_ID_CHARS_MAX, pattern=r"^[A-Za-z0-9._:\-]+$")
]
WorkflowId = Annotated[str, Field(min_length=1, max_length=limits.WORKFLOW_ID_CHARS_MAX)]
Name = Annotated[
    str, Field(min_length=1, max_length=limits.NAME_CHARS_MAX, pattern=r"^[A-Za-z0-9._\-]+$")
]
Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
Reason = Annotated[str, at_most_bytes(limits.REASON_BYTES_MAX)]
Note = Annotated[str, at_most_bytes(limits.NOTE_BYTES_MAX)]
Notes = Annotated[tuple[Note, ...], Field(max_length=limits.NOTES_MAX)]
Label = Annotated[str, Field(max_length=limits.LABEL_CHARS_MAX)]
Labels = Annotated[dict[Label, Label], Field(max_length=limits.LABELS_MAX)]
Count = Annotated[int, Field(ge=0)]
Position = Annotated[int, Field(ge=0)]

# For members that older records lack: records without them, and their digests, stay as they were.
OMIT_NONE = Field(exclude_if=lambda value: value is None)
OMIT_FALSY = Field(exclude_if=not_)


def one_line(text: str) -> str:
    r"""The text, with `\n` and the like in the place of signs that cannot be printed."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else _written_out(sign) for sign in text)


def _written_out(sign: str) -> str:
    return sign.encode("unicode_escape").decode("ascii")
