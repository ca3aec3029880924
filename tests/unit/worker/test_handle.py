"""The main path alone, with a lane that says what it is told to: its verbs, and its exits."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from answerbus.budget import Spent
from answerbus.dead_letter import BudgetExhausted, Cause, DeadlinePassed
from services.worker.core.attempt.plan import Plan
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import Rejected, Reply, Throttled, TimedOut
from services.worker.core.budget.ledger import Reserved
from services.worker.core.outcome.call import Call
from services.worker.core.outcome.decide import DecisionInputs
from services.worker.core.outcome.decision import Decision, Verdict
from services.worker.core.request.lane_request import LaneRequest
from services.worker.core.run.composition import ComputedStep
from services.worker.core.schema.resolved import AcceptedStep, WantedCall
from services.worker.handle import handle
from services.worker.ports.lane import (
    CallSlot,
    LaneLost,
    Later,
    NoCall,
    Permit,
    RequestTask,
    Unanswerable,
)
from tests.unit.worker.builders import answered, around, as_committed, case

CASE = case()
PERMIT = Permit(CASE.spend, expires_at=5.0, took_s=0.1)
WHOLE = ["admit", "spend", "call", "decide", "commit result", "leave"]
EXHAUSTED = BudgetExhausted(which="attempts")


@dataclass
class FakeTask:
    """Does what each script says, and a whole success after that; notes what it was asked."""

    admits: list[NoCall] = field(default_factory=list)
    spends: list[NoCall] = field(default_factory=list)
    calls: list[NoCall | Reply] = field(default_factory=list)
    losses: int = 0  # commits that are not known to have happened
    leaves: bool = False
    verbs: list[str] = field(default_factory=list)
    lane_request: LaneRequest = CASE.lane_request

    @property
    def plan(self) -> Plan:
        return CASE.plan

    @asynccontextmanager
    async def admit(self) -> AsyncIterator[CallSlot | NoCall]:
        self.verbs.append("admit")
        try:
            yield self.admits.pop(0) if self.admits else self
        finally:
            self.verbs.append("leave")

    async def spend(self, plan: Plan, prompt: Prompt) -> Permit | NoCall:
        assert (prompt.request_id, prompt.wire) == ("r-1", plan.wire)
        self.verbs.append("spend")
        return self.spends.pop(0) if self.spends else PERMIT

    async def call(self, prompt: Prompt, permit: Permit) -> Call | NoCall:
        assert permit is PERMIT
        self.verbs.append("call")
        found = self.calls.pop(0) if self.calls else answered()
        if isinstance(found, NoCall):
            return found
        return replace(CASE, prompt=prompt, reply=found)

    async def inputs(self, call: Call) -> DecisionInputs:
        assert call.lane_request is self.lane_request
        self.verbs.append("decide")
        return around()

    async def commit(self, call: Call, verdict: Verdict) -> Decision | None:
        decision = as_committed(verdict, call, around())
        self.verbs.append(f"commit {getattr(decision, 'kind', 'wait')}")
        self.losses -= 1
        return decision if self.losses < 0 else None

    async def take_step(self, computed: ComputedStep) -> None:
        self.verbs.append(f"step {len(computed.step.calls)}")

    async def dead_letter(self, cause: Cause) -> None:
        self.verbs.append(f"dead_letter {cause.kind}")

    async def pause(self, delay_s: float) -> None:
        if self.leaves:
            raise LaneLost
        self.verbs.append(f"pause {delay_s}")


def verbs(task: FakeTask) -> Sequence[str]:
    of: RequestTask = task
    asyncio.run(handle(of))
    return task.verbs


def test_a_request_is_admitted_spent_for_called_decided_and_committed() -> None:
    assert verbs(FakeTask()) == WHOLE


@pytest.mark.parametrize("cause", [DeadlinePassed(), EXHAUSTED])
def test_what_is_not_admitted_ends_without_a_spend(cause: Cause) -> None:
    task = FakeTask(admits=[Unanswerable(cause)])

    assert verbs(task) == ["admit", "leave", f"dead_letter {cause.kind}"]


def test_what_cannot_be_paid_for_ends_without_a_call_and_gives_its_place_back_first() -> None:
    task = FakeTask(spends=[Unanswerable(EXHAUSTED)])

    assert verbs(task) == ["admit", "spend", "leave", "dead_letter budget_exhausted"]


def test_what_waits_for_its_account_is_the_queues_again() -> None:
    assert verbs(FakeTask(spends=[Reserved()])) == ["admit", "spend", "leave"]


@pytest.mark.parametrize("verb", ["admits", "spends", "calls"])
def test_whatever_can_only_be_done_later_starts_again_after_a_pause(verb: str) -> None:
    before = {"admits": [], "spends": ["spend"], "calls": ["spend", "call"]}[verb]
    task = FakeTask(**{verb: [Later(0.25)]})  # type: ignore[arg-type]

    assert verbs(task) == ["admit", *before, "leave", "pause 0.25", *WHOLE]


def test_a_provider_that_did_no_work_is_asked_again_after_its_wait() -> None:
    task = FakeTask(calls=[Throttled(2.0)])
    wait = [*WHOLE[:4], "commit wait", "leave", "pause 2.0"]

    assert verbs(task) == [*wait, *WHOLE]


@pytest.mark.parametrize(
    ("reply", "kind"),
    [(TimedOut(9.0), "retry_request"), (Rejected("request", 400, "bad"), "dead_letter")],
)
def test_a_retry_and_a_dead_letter_end_the_work_of_this_turn(reply: Reply, kind: str) -> None:
    assert verbs(FakeTask(calls=[reply])) == [*WHOLE[:4], f"commit {kind}", "leave"]


def test_what_is_not_known_to_be_committed_is_decided_again_and_not_called_again() -> None:
    again = ["decide", "commit result"]

    assert verbs(FakeTask(losses=2)) == [*WHOLE[:3], *again, *again, *again, "leave"]


def test_a_request_leaves_its_place_when_its_lane_is_lost() -> None:
    task = FakeTask(calls=[Throttled(2.0)], leaves=True)

    with pytest.raises(LaneLost):
        verbs(task)
    assert task.verbs == [*WHOLE[:4], "commit wait", "leave"]


def test_a_step_without_a_call_is_taken_and_ends_the_turn() -> None:
    step = ComputedStep(AcceptedStep((), (WantedCall("propose", {}),), (), None), Spent())

    assert verbs(FakeTask(admits=[step])) == ["admit", "leave", "step 1"]
