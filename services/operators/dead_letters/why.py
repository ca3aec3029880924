"""The reason why a request died: its last failure, the first problem and its path; pure.

"The budget is spent" is how it ended; "`/actions/0/args` is not JSON", three times, is why.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from services.operators.records.event_parts import (
    CauseSummary,
    FailureDetailSummary,
    ProblemSummary,
)
from services.operators.records.event_summary import DeadLetterSummary

ENDINGS = frozenset(
    {
        "budget_exhausted",
        "deadline_passed",
        "invalid_answer",
        "repeats_itself",
        "waited_too_often",
    }
)
"""Causes that say how trying ended; what failed before is why."""

_AT = " at "
_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "malformed": "the answer is not JSON",
        "invalid": "the answer breaks its schema",
        "truncated": "the answer was cut at the output limit",
        "refused": "the model or its provider declined",
        "throttled": "the provider was busy",
        "unavailable": "the provider was not available",
        "timed_out": "the provider did not answer in time",
        "unknown": "the worker ended during the call",
        "budget_exhausted": "the budget had too little left before any answer",
        "deadline_passed": "the deadline passed before any answer",
        "undecodable": "invalid request",
        "rejected": "the provider rejects the request",
    }
)
_PROBLEM_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "json_text": "is not JSON",
        "type": "has another type",
        "required": "lacks a member",
        "missing": "is missing",
        "enum": "is none of the allowed values",
        "const": "is not the one allowed value",
        "tag": "has another tag",
        "pattern": "does not match its pattern",
        "format": "has another format",
        "additionalProperties": "has members that are not in the schema",
        "unevaluatedProperties": "has members that are not in the schema",
        "extra_forbidden": "is not in the schema",
        "maxLength": "is too long",
        "minLength": "is too short",
        "maxItems": "has too many items",
        "minItems": "has too few items",
        "less_than_equal": "is too large",
        "less_than": "is too large",
        "maximum": "is too large",
        "greater_than_equal": "is too small",
        "greater_than": "is too small",
        "minimum": "is too small",
        "escapes_sandbox": "leaves the working tree",
    }
)


@dataclass(frozen=True, slots=True)
class Why:
    """`kind` is a failure or a cause, `code` what is wrong in one word, `path` where in the answer.

    Paths may hold words of an answer; kinds and codes do not.
    """

    kind: str
    code: str | None = None
    path: str | None = None

    def __str__(self) -> str:
        """As filters take it: `invalid: json_text at /actions/0/args`."""
        code = "" if self.code is None else f": {self.code}"
        return f"{self.kind}{code}{_AT}{self.path}" if self.path else f"{self.kind}{code}"


def why_of(dead_letter: DeadLetterSummary) -> Why:
    """The last failure if that ended the attempts, else the cause of the dead letter itself.

    A budget of a label that is used up comes before any failure, since the request's own is not.
    """
    cause = dead_letter.cause
    if cause.budget is not None:
        return Why(cause.kind, f"{cause.which} of a label")
    failure = dead_letter.last_failure
    if failure is not None and cause.kind in ENDINGS:
        return _why(failure, None if failure.status is None else str(failure.status))
    details = (cause.status, cause.code, cause.which)
    return _why(cause, " ".join(str(part) for part in details if part is not None) or None)


def _why(found: FailureDetailSummary | CauseSummary, code: str | None) -> Why:
    first: ProblemSummary | None = found.problems[0] if found.problems else None
    return Why(found.kind, first.code, first.path) if first else Why(found.kind, code)


def without_path(value: str) -> str:
    """A `str(Why)` for those who may not see what was answered."""
    return value.partition(_AT)[0]


def kind_text(kind: str) -> str:
    """A kind of failure, or of cause, in words for people."""
    return _WORDS.get(kind, kind.replace("_", " "))


def why_text(value: str) -> str:
    """A `str(Why)` in words for people: `/actions/0/args is not JSON`."""
    head, _, path = value.partition(_AT)
    kind, _, code = head.partition(": ")
    words = _PROBLEM_WORDS.get(code)
    message = kind_text(kind)
    if kind == "invalid":
        return f"{path or 'the answer'} {words or f'breaks the rule {code}'}"
    if not code:
        return message
    return f"{message}: {path} {words or code}" if path else f"{message} ({words or code})"
