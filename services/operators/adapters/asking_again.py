"""Asks one profile once more what was asked before: no lane, no repair, no tool, no outcome."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import assert_never

from pydantic import JsonValue
from pydantic_core import to_json

from answerbus import failure
from answerbus.budget import Usage
from answerbus.cause import Cause
from answerbus.compared import AnswerOutcome, Compared, ComparedAnswer
from answerbus.json_values import has_more_values
from answerbus.limits import EVENT_VALUES_MAX, MODEL_CHARS_MAX, REASON_BYTES_MAX
from answerbus.request import Request
from answerbus.request_key import RequestKey
from answerbus.wire import clip
from services.operators.comparisons.agreement import agreement, is_equal
from services.operators.comparisons.money_budget import MoneyBudget
from services.operators.comparisons.questions import RecordedQuestion, step_answer
from services.operators.explain import cause_text, failure_text
from services.worker.core.attempt.check import Checked, TooLarge
from services.worker.core.attempt.plan import Plan
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import (
    Answered,
    Refused,
    Reply,
    Throttled,
    facts_of,
    is_counted,
)
from services.worker.core.limits.fair_queue import FairKey
from services.worker.core.run.run import Run
from services.worker.core.schema.resolved import Accepted, AcceptedStep
from services.worker.lane.admission import ask_once
from services.worker.limits.isolation import Isolation
from services.worker.limits.lease import CallLease
from services.worker.limits.slots import Slots
from services.worker.planning.planner import Backend, Planner
from services.worker.ports.clock import Clock
from services.worker.tasks import checking

THROTTLED_TRIES = 3
ENTER_S = 60.0  # a call waits so long for a place at its profile
_VALUES_BESIDE = 1_000  # of a record, beside its two answers


@dataclass(frozen=True, slots=True)
class CannotGoOn:
    """Why no more can be asked, for people."""

    why: str


IsOver = Callable[[], bool]


def _never() -> bool:
    return False


OVER_BUDGET = CannotGoOn(
    "The budget is over: the worst case of the next call is more than what is left. Give a higher "
    "--budget-usd, or a smaller --sample."
)


@dataclass(frozen=True, slots=True)
class PaidAnswer:
    """One call for an answer, and what the budget was charged for it."""

    answer: ComparedAnswer
    charged_micro_usd: int


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks profiles of the planner; questions go to `profile`, and wait for a slot there."""

    planner: Planner
    profile: str
    money: MoneyBudget
    slots: Slots
    clock: Clock
    settled: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(
        self, question: RecordedQuestion, comparison: str, is_over: IsOver = _never
    ) -> Compared | CannotGoOn | None:
        """A question with its new answer; None as of `answer`."""
        request = question.request.model_copy(update={"profile": self.profile})
        asked = await self.answer(request, is_over)
        return (
            self._compared(question, comparison, asked) if isinstance(asked, PaidAnswer) else asked
        )

    async def answer(
        self, request: Request, is_over: IsOver = _never
    ) -> PaidAnswer | CannotGoOn | None:
        """One call, or none where it cannot be asked at all.

        None where the comparison was over before there was money for the call.
        """
        plan = await self._plan(request)
        if not isinstance(plan, Plan):
            why = clip(cause_text(plan), REASON_BYTES_MAX)
            return PaidAnswer(ComparedAnswer(outcome="failed", profile=request.profile, why=why), 0)
        prompt = plan.prompt(request, request.prior)
        most = plan.worst_cost(prompt)
        if not await self._is_reserved(most, is_over):
            return None if is_over() else OVER_BUDGET
        cost = most  # unless the provider says otherwise, also where this is cancelled
        try:
            called = await self._call(request, prompt, plan)
            if isinstance(called, CannotGoOn):
                cost = 0
                return called
            reply, took_s = called
            usage = self._usage(plan, reply)
            cost = _cost(reply, usage, most)
        finally:
            self.money.settle(most, cost)
            self.settled.set()
        return PaidAnswer(await self._answer(request, plan, reply, usage, took_s), cost)

    async def _is_reserved(self, most: int, is_over: IsOver) -> bool:
        """Wait while calls under way may leave enough: they seldom cost what they reserve."""
        while not is_over():
            if self.money.reserve(most):
                return True
            if not self.money.reserved_micro_usd:
                return False
            self.settled.clear()
            await self.settled.wait()
        return False

    async def _plan(self, request: Request) -> Plan | Cause:
        if request.agent is None:
            return self.planner.plan(request, await self.planner.prepare(request))
        run = self.planner.begin_run(request)
        if isinstance(run, Run):
            return await self.planner.plan_step(request, run, is_last_attempt=False)
        return run

    async def _call(
        self, request: Request, prompt: Prompt, plan: Plan
    ) -> tuple[Reply, float] | CannotGoOn:
        backend = self.planner.backends[request.profile]
        for _ in range(THROTTLED_TRIES):
            called = await self._call_once(request, prompt, plan, backend)
            if isinstance(called, CannotGoOn) or not isinstance(called[0], Throttled):
                break
        return called

    async def _call_once(
        self, request: Request, prompt: Prompt, plan: Plan, backend: Backend
    ) -> tuple[Reply, float] | CannotGoOn:
        """Its limiter pauses all calls of a profile that throttles, or is away."""
        tokens = prompt.tokens_max if backend.limiter.counts_tokens else 0
        key = FairKey("", request.workflow_id)
        lease = CallLease(backend.limiter, self.slots, Isolation(), key=key, tokens=tokens)
        try:
            try:
                async with asyncio.timeout(ENTER_S):
                    await lease.enter()
                    await lease.begin_call(0.0)
            except TimeoutError:
                problem = backend.limiter.problem
                why = problem.text if problem and problem.text else "it is throttled or away"
                return CannotGoOn(f"The profile took no call for {ENTER_S:g} s: {why}.")
            lease.call_begins()
            began = time.monotonic()
            reply = await ask_once(backend.provider, prompt, plan.profile.timeout_s)
            took_s = time.monotonic() - began
            lease.report(reply, took_s)
            return reply, took_s
        finally:
            lease.leave()

    def _usage(self, plan: Plan, reply: Reply) -> Usage:
        facts, tariff = facts_of(reply), plan.profile.tariff
        return tariff.priced(facts.usage, facts.service_tier)[0] if tariff else facts.usage

    async def _answer(
        self, request: Request, plan: Plan, reply: Reply, usage: Usage, took_s: float
    ) -> ComparedAnswer:
        named = facts_of(reply).model or plan.profile.model
        called = ComparedAnswer(
            outcome="failed",
            profile=request.profile,
            model=named[:MODEL_CHARS_MAX],
            usage=usage,
            duration_ms=int(took_s * 1000),
        )
        match reply:
            case Answered():
                work = self.planner.costly_work
                checked = await checking.checked(reply.content, plan, work, request.workflow_id)
                return called.model_copy(update=_checked(checked))
            case Refused():
                return called.model_copy(update=_outcome("refused", reply.failure))
            case other:
                failed = other.failure
                is_cut = isinstance(failed, failure.Truncated)
                return called.model_copy(update=_outcome("invalid" if is_cut else "failed", failed))

    def _compared(self, question: RecordedQuestion, comparison: str, asked: PaidAnswer) -> Compared:
        request, recorded, again = question.request, question.recorded, asked.answer
        key = RequestKey.of(request)
        step = "" if question.step is None else f".step.{question.step}"
        one, other = recorded.answer, again.answer
        is_both = one is not None and again.outcome == "answered"
        left_out = _are_too_many(one, other)
        if left_out:
            recorded = recorded.model_copy(update={"answer": None})
            again = again.model_copy(update={"answer": None})
        return Compared(
            event_id=f"{comparison}.{key.mark}{step}",
            comparison=comparison,
            request_id=request.request_id,
            workflow_id=request.workflow_id,
            step=question.step,
            recorded=recorded,
            again=again,
            equal=is_equal(one, other) if is_both else None,
            fields=agreement(one, other) if is_both else (),
            left_out=left_out,
            charged_micro_usd=asked.charged_micro_usd,
            at=self.clock.now(),
        )


def _cost(reply: Reply, usage: Usage, most: int) -> int:
    """Without a report, a call costs its worst case, as with a worker."""
    if not is_counted(reply):
        return 0
    return most if usage.micro_usd is None else usage.micro_usd


def _checked(checked: Checked) -> dict[str, JsonValue]:
    match checked:
        case Accepted(declined=None):
            return {"outcome": "answered", "answer": checked.answer}
        case Accepted(declined=declined):
            reason = declined.reason if declined else ""
            return {"outcome": "refused", "why": clip(reason, REASON_BYTES_MAX)}
        case AcceptedStep():
            calls = ((call.tool, call.args) for call in checked.calls)
            return {"outcome": "answered", "answer": step_answer(calls)}
        case TooLarge(bytes=size):
            return {"outcome": "invalid", "why": f"an answer of {size:,} bytes"}
        case failure.Malformed() | failure.Invalid():
            return _outcome("invalid", checked)
        case other:
            assert_never(other)


def _outcome(outcome: AnswerOutcome, failed: failure.Failure) -> dict[str, JsonValue]:
    return {"outcome": outcome, "why": clip(failure_text(failed), REASON_BYTES_MAX)}


def _are_too_many(one: JsonValue, other: JsonValue) -> bool:
    """JSON values for one record; its bytes are bounded by those of two answers."""
    return has_more_values(to_json([one, other]), EVENT_VALUES_MAX - _VALUES_BESIDE)
