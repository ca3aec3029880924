"""The outcome of a provider call: a closed union that never leaves the worker."""

from dataclasses import dataclass, field
from typing import Literal, assert_never

from answerbus import failure
from answerbus.budget import Usage
from answerbus.failure import Failure
from answerbus.limits import REASON_BYTES_MAX
from answerbus.wire import clip


@dataclass(frozen=True, slots=True)
class CallFacts:
    """A provider's facts about a call, as far as it gave any."""

    model: str | None = None
    request_id: str | None = None
    stop_reason: str | None = None
    usage: Usage = field(default_factory=Usage)
    service_tier: str | None = None  # `standard`, where the provider calls it its default


@dataclass(frozen=True, slots=True)
class Answered:
    """Content came back whole; whether it satisfies anything is not decided here."""

    content: str
    facts: CallFacts


@dataclass(frozen=True, slots=True)
class Refused:
    """The model's refusal channel or the provider's filter spoke."""

    reason: str
    facts: CallFacts
    category: str | None = None

    @property
    def failure(self) -> Failure:
        return failure.Refused(reason=clip(self.reason, REASON_BYTES_MAX))


@dataclass(frozen=True, slots=True)
class Truncated:
    """The output limit of `limit` tokens cut the answer."""

    limit: int
    facts: CallFacts

    @property
    def failure(self) -> Failure:
        return failure.Truncated(limit=self.limit)


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """The model was served, and wrote none: a tool call, thoughts alone, what breaks a grammar."""

    status: int
    facts: CallFacts

    @property
    def failure(self) -> Failure:
        return failure.Unavailable(status=self.status)


@dataclass(frozen=True, slots=True)
class Throttled:
    """The provider did not work on the call and asks to come later."""

    retry_after_s: float | None

    @property
    def failure(self) -> Failure:
        return failure.Throttled(retry_after_s=self.retry_after_s)


@dataclass(frozen=True, slots=True)
class Unavailable:
    """No answer for the provider's or the network's fault; `ran` unless it surely never started.

    There are facts where a provider broke off and says so in a whole reply.
    """

    status: int | None
    ran: bool
    facts: CallFacts = CallFacts()

    @property
    def failure(self) -> Failure:
        return failure.Unavailable(status=self.status)


@dataclass(frozen=True, slots=True)
class TimedOut:
    """No answer within `after_s` seconds; the call may have run."""

    after_s: float

    @property
    def failure(self) -> Failure:
        return failure.TimedOut(after_s=self.after_s)


@dataclass(frozen=True, slots=True)
class Rejected:
    """The provider will not do this, now or later: not this request, or nothing of this profile."""

    scope: Literal["request", "profile"]
    status: int | None
    code: str | None

    @property
    def failure(self) -> Failure:
        return failure.Unavailable(status=self.status)


Served = Answered | Refused | Truncated | NoAnswer  # the model worked, and its reply came
Reply = Served | Throttled | Unavailable | TimedOut | Rejected


def is_counted(reply: Reply) -> bool:
    """Whether the model may have worked on the call (the list is in docs/private-records.md)."""
    match reply:
        case Answered() | Refused() | Truncated() | NoAnswer() | TimedOut():
            return True
        case Unavailable(ran=ran):
            return ran
        case Throttled() | Rejected():
            return False
        case _:
            assert_never(reply)


def facts_of(reply: Reply) -> CallFacts:
    """The facts about the call; none where no answer arrived."""
    match reply:
        case Answered() | Refused() | Truncated() | NoAnswer() | Unavailable():
            return reply.facts
        case Throttled() | TimedOut() | Rejected():
            return CallFacts()
        case _:
            assert_never(reply)


ReplyKind = Literal[
    "answered",
    "refused",
    "truncated",
    "no_answer",
    "throttled",
    "unavailable",
    "timed_out",
    "rejected",
]


def kind_of(reply: Reply) -> ReplyKind:
    """Its name in metrics and traces."""
    match reply:
        case Answered():
            return "answered"
        case Refused():
            return "refused"
        case Truncated():
            return "truncated"
        case NoAnswer():
            return "no_answer"
        case Throttled():
            return "throttled"
        case Unavailable():
            return "unavailable"
        case TimedOut():
            return "timed_out"
        case Rejected():
            return "rejected"
        case _:
            assert_never(reply)
