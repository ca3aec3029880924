"""The contract `specialist` v1, and the wrapper of inline schemas: an answer with a way out.

A model that cannot give an `output` says so (`success: false`) instead of making one up.
"""

from typing import Annotated, Generic

from pydantic import Field, JsonValue, model_validator
from pydantic_core import PydanticCustomError
from typing_extensions import TypeVar

from answerbus import limits
from answerbus.contract import Closed, Contract
from answerbus.wire import Notes, Reason, clip

OutputT = TypeVar("OutputT", default=JsonValue)

DROPPED_OUTPUT = "the model reported failure and gave an `output` all the same; it was dropped"
_SUCCESS = "Whether `output` could be given. False is an honest answer."
_OUTPUT = "The answer itself, if `success` is true; else null."
_NOTES = "Short remarks for the reader; usually empty."
_FAILURE_REASON = "Why not, exactly if `success` is false; else null."


class Specialist(Closed, Generic[OutputT]):
    """What a wrapped answer looks like when published; `output` obeys the caller's schema.

    `notes` are the model's remarks, then the worker's own.
    """

    output: Annotated[OutputT | None, Field(description=_OUTPUT)] = None
    success: Annotated[bool, Field(description=_SUCCESS)]
    notes: Annotated[Notes, Field(description="Remarks of the model, then of the worker.")] = ()
    failure_reason: Annotated[Reason | None, Field(description=_FAILURE_REASON)] = None

    @model_validator(mode="after")
    def _either_way(self) -> "Specialist[OutputT]":
        if self.success and self.failure_reason is not None:
            raise PydanticCustomError(
                "failure_reason_surplus", "`failure_reason` null, as `success` is true"
            )
        if not self.success and (self.output is not None or not self.failure_reason):
            raise PydanticCustomError(
                "failure_reason_missing", "no `output` and a reason, as `success` is false"
            )
        return self


class AskedSpecialist(Closed):
    """The answer, or why there is none."""  # models read this

    success: Annotated[bool, Field(description=_SUCCESS)]
    output: Annotated[JsonValue, Field(description=_OUTPUT)] = None
    notes: Annotated[tuple[str, ...], Field(description=_NOTES)] = ()
    failure_reason: Annotated[str | None, Field(description=_FAILURE_REASON)] = None

    @model_validator(mode="after")
    def _reason_for_failure(self) -> "AskedSpecialist":
        if not self.success and not (self.failure_reason or "").strip():
            raise PydanticCustomError(
                "failure_reason_missing", "`failure_reason` to say why `success` is false"
            )
        return self

    def published(self) -> Specialist[JsonValue]:
        """The answer for the wire: output exactly on success, a reason exactly on failure."""
        dropped = not self.success and self.output is not None
        return Specialist[JsonValue](
            output=self.output if self.success else None,
            success=self.success,
            notes=noted(self.notes, (DROPPED_OUTPUT,) if dropped else ()),
            failure_reason=None
            if self.success
            else clip(self.failure_reason or "", limits.REASON_BYTES_MAX),
        )


def noted(notes: tuple[str, ...], own: tuple[str, ...]) -> tuple[str, ...]:
    """The model's notes and the worker's `own` within the limits: the own ones have their place."""
    last = tuple(dict.fromkeys(own))[: limits.NOTES_MAX]
    first = tuple(note for note in notes if note not in last)[: limits.NOTES_MAX - len(last)]
    return tuple(clip(note, limits.NOTE_BYTES_MAX) for note in first + last)


def wrap(inner: JsonValue) -> dict[str, JsonValue]:
    """The JSON Schema of a wrapped answer around the caller's schema `inner`.

    The caller's description of `output` is in the prompt, behind a fence.
    `inner` must be self-contained at its new place: its own references stay relative to it.
    """
    return {
        "type": "object",
        "properties": {
            "success": {"type": "boolean", "description": _SUCCESS},
            "output": {"anyOf": [inner, {"type": "null"}], "description": _OUTPUT},
            "notes": {"type": "array", "items": {"type": "string"}, "description": _NOTES},
            "failure_reason": {"type": ["string", "null"], "description": _FAILURE_REASON},
        },
        "required": ["success", "output", "notes", "failure_reason"],
        "additionalProperties": False,
    }


SPECIALIST: Contract[Specialist[JsonValue]] = Contract(
    name="specialist",
    version=1,
    answer=Specialist[JsonValue],
    asked=AskedSpecialist,
    summary="Any JSON value, or an honest account of why there is none.",
    examples=(
        {
            "output": {"endpoint": "/invoices", "method": "GET"},
            "success": True,
            "notes": ["filter with state=open"],
            "failure_reason": None,
        },
    ),
)
