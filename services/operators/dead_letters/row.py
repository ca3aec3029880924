"""One dead letter in an operator's list, small enough for 100,000 of them."""

from dataclasses import dataclass
from typing import Literal

from answerbus.trace import Trace
from services.operators.records.stored import Place

Status = Literal["open", "replayed", "dismissed"]
STATUSES: tuple[Status, ...] = ("open", "replayed", "dismissed")


@dataclass(frozen=True, slots=True)
class Funds:
    """What an account may spend, or has spent; `None` is no limit."""

    attempts: int
    tokens: int | None
    micro_usd: int | None


NOTHING = Funds(0, 0, 0)


@dataclass(frozen=True, slots=True)
class ReplayInfo:
    """The dead letter was replayed, as `request_id`; `at_ms` is milliseconds since 1970."""

    request_id: str
    round: int
    by: str
    reason: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Dismissal:
    """The dead letter was dismissed; `at_ms` is milliseconds since 1970."""

    by: str
    reason: str
    at_ms: int


@dataclass(slots=True, eq=False)
class DeadLetterRow:
    """One dead letter without its bodies, which stand at `place`.

    `failure` is that of its last attempt; `why` and its code `problem` are those of why.py. `at_ms`
    is in milliseconds since 1970, `model` who was asked last (known once its attempts were read),
    `cost` what its own attempts cost (likewise), `spent` what the account had spent by then.
    `profile`, `schema` and `limit` are None where the letter holds no request. `trace` is the one
    it ended (known once its body was read), `agent` who worked on it, if it was a run.
    """

    id: str
    place: Place
    at_ms: int
    cause: str
    failure: str | None
    request_id: str | None
    workflow_id: str | None
    schema: str | None
    profile: str | None
    labels: tuple[tuple[str, str], ...]
    account_id: str | None
    limit: Funds | None
    spent: Funds | None
    round: int
    why: str = ""
    problem: str | None = None
    model: str | None = None
    cost: Funds | None = None
    trace: Trace | None = None
    replay: ReplayInfo | None = None
    dismissal: Dismissal | None = None
    agent: str | None = None

    @property
    def status(self) -> Status:
        """What operators did about it; a letter that was dismissed and replayed is replayed."""
        if self.replay:
            return "replayed"
        return "dismissed" if self.dismissal else "open"

    @property
    def has_request(self) -> bool:
        """Whether there is a request to replay; else its bytes are to be repaired."""
        return self.schema is not None
