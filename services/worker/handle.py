"""THE MAIN PATH: admit, spend, call, decide, commit; from a request's turn to its outcome.

Its record was admitted to the lane before (core/request/admit.py), and it has waited in the lane's
queue since. Each verb gives what the next one needs, or a value that says why there is no call now.
Precautions for requests that may end their worker are part of `admit`
(lane/crash_precautions.py).
"""

from typing import assert_never

from answerbus.dead_letter import DeadLetter
from answerbus.outcome import Refusal, Result, RetryRequest, UnvalidatedResult
from services.worker.core.budget.ledger import Reserved
from services.worker.core.outcome.decide import decide
from services.worker.core.outcome.decision import Decision, NextStep, Wait
from services.worker.core.run.composition import ComputedStep
from services.worker.ports.lane import Later, NoCall, RequestTask, Unanswerable


async def handle(task: RequestTask) -> None:
    """Work on one request until it has its outcome, or waits in the queue. Raises LaneLost."""
    while True:
        end = await attempt(task)
        match end:
            case Result() | UnvalidatedResult() | Refusal() | DeadLetter():
                return  # its outcome is committed
            case RetryRequest() | NextStep() | Reserved():
                return  # it waits in the queue: for its moment, for its tools, or for its account
            case Unanswerable(cause=cause):
                await task.dead_letter(cause)
                return
            case ComputedStep():
                await task.take_step(end)
                return
            case Wait(delay_s=delay_s) | Later(delay_s=delay_s):
                await task.pause(delay_s)
            case _:
                assert_never(end)


async def attempt(task: RequestTask) -> Decision | NoCall:
    """One call, and what was committed of it; or why there is none now."""
    async with task.admit() as slot:
        if isinstance(slot, NoCall):
            return slot

        prompt = slot.plan.prompt(task.lane_request.request, task.lane_request.progress.prior)
        permit = await task.spend(slot.plan, prompt)
        if isinstance(permit, NoCall):
            return permit

        call = await slot.call(prompt, permit)
        if isinstance(call, NoCall):
            return call

        committed: Decision | None = None
        while committed is None:  # as often as it takes, each time on the lane's present producer
            verdict = decide(call, await task.inputs(call))
            committed = await task.commit(call, verdict)
        return committed
