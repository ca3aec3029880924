"""Why the requests of a profile cannot be answered now: for operators, and in one word; pure."""

from dataclasses import dataclass
from typing import Literal

ProblemKind = Literal["no_connection", "rejected", "check_failed", "failing", "silent"]


@dataclass(frozen=True, slots=True)
class ProfileProblem:
    """`text` is a sentence; `lasts_s` is how long it has been so, None where that is not known."""

    kind: ProblemKind
    text: str
    lasts_s: float | None = None
