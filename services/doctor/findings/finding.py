"""One finding of the doctor about a part of a set-up."""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "warning", "wrong"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line; `statement` says what is, and if that is not well, what to change."""

    about: str
    verdict: Verdict
    said: str
