"""One request at one attempt: everything that an event about it repeats."""

from dataclasses import dataclass
from datetime import datetime

from answerbus.budget import Usage
from answerbus.outcome import ModelUsed, Origin
from answerbus.request import Prior, Request
from services.worker.core.attempt.plan import Plan


@dataclass(frozen=True, slots=True)
class AttemptContext:
    """See the module; `prior` and `waits` are of the attempts before this one."""

    request: Request
    body_digest: str
    origin: Origin
    deadline: datetime
    prior: tuple[Prior, ...]
    waits: int
    notes: tuple[str, ...]
    attempt: int
    plan: Plan
    model: ModelUsed
    usage: Usage
