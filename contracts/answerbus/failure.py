"""Why an attempt gave no result, as data: a closed union that `match` can exhaust."""

from typing import Annotated, Literal

from pydantic import Field

from answerbus import limits
from answerbus.wire import (
    IN_64_BITS,
    OMIT_FALSY,
    OMIT_NONE,
    Count,
    Position,
    Reason,
    Wire,
    at_most_bytes,
    clip,
)

_Position = Annotated[Position, IN_64_BITS]


class Problem(Wire):
    """One reason a document fails its schema.

    `path` is a JSON pointer, `code` a stable machine word, `found` what is there and `expected`
    what would have been right, both in words a model can act on. Of JSON inside of a text that
    cannot be read, `position` is the byte where reading stopped, and `excerpt` what is around
    it. At most 512 bytes together.
    """

    path: str
    code: str
    found: Annotated[str, OMIT_FALSY] = ""
    position: Annotated[_Position | None, OMIT_NONE] = None
    excerpt: Annotated[str, at_most_bytes(limits.EXCERPT_BYTES_MAX), OMIT_FALSY] = ""
    expected: str

    @classmethod
    def of(
        cls,
        path: str,
        code: str,
        expected: str,
        *,
        found: str = "",
        position: int | None = None,
        excerpt: str = "",
    ) -> "Problem":
        """A problem clipped to its size limit, so that reporting one cannot fail."""
        code, found = clip(code, _CODE_BYTES_MAX), clip(found, _FOUND_BYTES_MAX)
        path = clip(path, (limits.PROBLEM_BYTES_MAX - _CODE_BYTES_MAX) // 2)
        rest = limits.PROBLEM_BYTES_MAX - sum(len(text.encode()) for text in (code, path, found))
        excerpt = clip(excerpt, rest // 2)
        return cls(
            path=path,
            code=code,
            expected=clip(expected, rest - len(excerpt.encode())),
            found=found,
            position=position,
            excerpt=excerpt,
        )

    @property
    def says_itself(self) -> bool:
        """Whether `expected` is what a validator says of what it found, in its own words."""
        return self.code in _SAYING

    def clipped(self) -> "Problem":
        """The same problem within its size limit, which one from outside may exceed."""
        return self.under("")

    def under(self, place: str) -> "Problem":
        """The same problem of a document that is at `place` of another one."""
        return Problem.of(
            place + self.path,
            self.code,
            self.expected,
            found=self.found,
            position=self.position,
            excerpt=self.excerpt,
        )


_SAYING = frozenset({"value_error", "assertion_error"})
_CODE_BYTES_MAX = 64
_FOUND_BYTES_MAX = 96


Problems = Annotated[tuple[Problem, ...], Field(max_length=limits.PROBLEMS_MAX)]


class Malformed(Wire):
    """The answer is not one JSON document; `position` is the byte where reading stopped."""

    kind: Literal["malformed"] = "malformed"
    position: _Position
    excerpt: Annotated[str, at_most_bytes(limits.EXCERPT_BYTES_MAX)]


class Invalid(Wire):
    """The answer is JSON and breaks its schema."""

    kind: Literal["invalid"] = "invalid"
    problems: Problems


class Truncated(Wire):
    """The answer was cut at the output limit of `limit` tokens."""

    kind: Literal["truncated"] = "truncated"
    limit: Annotated[Count, IN_64_BITS]


class Refused(Wire):
    """The model or its provider declined."""

    kind: Literal["refused"] = "refused"
    reason: Reason


class Throttled(Wire):
    """The provider asked to come later, in `retry_after_s` seconds if it said when."""

    kind: Literal["throttled"] = "throttled"
    retry_after_s: Annotated[float, Field(ge=0)] | None


class Unavailable(Wire):
    """The provider could not be reached, or answered with an HTTP `status` of its own fault."""

    kind: Literal["unavailable"] = "unavailable"
    status: Annotated[int, IN_64_BITS] | None

    @property
    def is_reply(self) -> bool:
        """Whether there was a whole reply, without an answer in it."""
        return self.status is not None and self.status // 100 == 2


class TimedOut(Wire):
    """No answer within `after_s` seconds."""

    kind: Literal["timed_out"] = "timed_out"
    after_s: Annotated[float, Field(ge=0)]


class Unknown(Wire):
    """The worker ended during the call: its outcome is not known."""

    kind: Literal["unknown"] = "unknown"


Failure = Annotated[
    Malformed | Invalid | Truncated | Refused | Throttled | Unavailable | TimedOut | Unknown,
    Field(discriminator="kind"),
]
