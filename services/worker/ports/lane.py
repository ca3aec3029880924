"""The port of the main path to a lane."""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from answerbus.dead_letter import Cause
from services.worker.core.attempt.plan import Plan
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.budget.account import Spend
from services.worker.core.budget.ledger import Reserved
from services.worker.core.outcome.call import Call
from services.worker.core.outcome.decide import DecisionInputs
from services.worker.core.outcome.decision import Decision, Verdict
from services.worker.core.request.lane_request import LaneRequest
from services.worker.core.run.composition import ComputedStep


class LaneLost(Exception):
    """The lane's producer is gone: fenced, or cut off; what was not confirmed may or may not be."""

    def __str__(self) -> str:
        why = super().__str__() or "fenced by another worker, or cut off from Kafka"
        return f"the producer of the lane is gone: {why}"


@dataclass(frozen=True, slots=True)
class Permit:
    """A committed spend, for one call, for a few seconds."""

    spend: Spend
    expires_at: float  # loop time
    took_s: float  # from the wish to the permit


@dataclass(frozen=True, slots=True)
class Unanswerable:
    """The request is over without another call, and becomes a dead letter."""

    cause: Cause


@dataclass(frozen=True, slots=True)
class Later:
    """There can be no call now, and there is nothing to write down: try again after a pause."""

    delay_s: float


NoCall = Unanswerable | Later | Reserved | ComputedStep


class CallSlot(Protocol):
    """The slot of an admitted request for one call."""

    @property
    def plan(self) -> Plan:
        """How it will be asked."""
        ...

    async def call(self, prompt: Prompt, permit: Permit) -> Call | NoCall:
        """Ask the provider, once; or give the permit back if it is too late for that."""
        ...


class RequestTask(Protocol):
    """The lane's interface to the main path for one request: its verbs, in their order.

    Each gives what the next one needs, or why there is no call now. All may raise LaneLost: then
    the request comes again.
    """

    @property
    def lane_request(self) -> LaneRequest:
        """The request."""
        ...

    def admit(self) -> AbstractAsyncContextManager[CallSlot | NoCall]:
        """Find out how it is asked, and wait for its place; the end of the context gives it back.

        The context of one that may end its worker is also the mark that says so.
        """
        ...

    async def spend(self, plan: Plan, prompt: Prompt) -> Permit | NoCall:
        """Charge one attempt to its account, and commit that."""
        ...

    async def inputs(self, call: Call) -> DecisionInputs:
        """What to decide by, once the lane can write; `commit` must follow without a wait."""
        ...

    async def commit(self, call: Call, verdict: Verdict) -> Decision | None:
        """Publish the outcome of the call; None if that must be decided again.

        Gives what was published: a dead letter, if no record can hold the outcome.
        """
        ...

    async def take_step(self, computed: ComputedStep) -> None:
        """Let the run have a step without a call, and commit that."""
        ...

    async def dead_letter(self, cause: Cause) -> None:
        """End the request without another call, and commit that."""
        ...

    async def pause(self, delay_s: float) -> None:
        """Let time pass, but not beyond the deadline."""
        ...
