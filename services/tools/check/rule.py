"""One rule of the wire, and how a tool server keeps it; pure."""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "wrong", "skipped"]


@dataclass(frozen=True, slots=True)
class Ruling:
    """What was found of one rule; `said` is what was seen, and where it is wrong, what is right."""

    rule: str
    verdict: Verdict
    said: str
