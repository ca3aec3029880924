"""The wrapper of inline schemas: an answer with an honest way out (`success: false`)."""

from pydantic import ConfigDict, JsonValue, model_validator
from pydantic_core import PydanticCustomError

from answerbus import limits
from answerbus.wire import Notes, Reason, Wire, clip


class Specialist(Wire):
    """What a wrapped answer looks like when published; `output` obeys the caller's schema."""

    output: JsonValue = None
    success: bool
    notes: Notes = ()
    failure_reason: Reason | None = None


class AskedSpecialist(Wire):
    """What a model answers; longer notes and reasons than we publish are cut, not refused."""

    model_config = ConfigDict(extra="forbid")

    output: JsonValue = None
    success: bool
    notes: tuple[str, ...] = ()
    failure_reason: str | None = None

    @model_validator(mode="after")
    def _reason_for_failure(self) -> "AskedSpecialist":
        if not self.success and not (self.failure_reason or "").strip():
            raise PydanticCustomError(
                "failure_reason_missing", "`failure_reason` to say why `success` is false"
            )
        return self

    def published(self) -> Specialist:
        """The answer for the wire: output exactly on success, a reason exactly on failure."""
        reason = clip(self.failure_reason or "", limits.REASON_BYTES_MAX)
        return Specialist(
            output=self.output if self.success else None,
            success=self.success,
            notes=tuple(clip(note, limits.NOTE_BYTES_MAX) for note in self.notes)[
                : limits.NOTES_MAX
            ],
            failure_reason=None if self.success else reason,
        )


def wrap(inner: JsonValue, description: str) -> dict[str, JsonValue]:
    """The JSON Schema of a wrapped answer around the caller's schema `inner`.

    `inner` must be self-contained at its new place: its own references stay relative to it.
    """
    return {
        "type": "object",
        "properties": {
            "success": {
                "type": "boolean",
                "description": "Whether `output` could be given. False is an honest answer.",
            },
            "output": {"anyOf": [inner, {"type": "null"}], "description": description},
            "notes": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Short remarks for the reader; usually empty.",
            },
            "failure_reason": {
                "type": ["string", "null"],
                "description": "Why not, exactly if `success` is false; else null.",
            },
        },
        "required": ["success", "output", "notes", "failure_reason"],
        "additionalProperties": False,
    }
