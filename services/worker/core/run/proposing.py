"""`best_of`: the proposals of a run, how many it may ask for, and those it has; pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from pydantic import JsonValue

from answerbus.budget import Spent
from answerbus.call_outcome import CallOk, ChildDeadLetter
from answerbus.failure import Problem
from answerbus.limits import DEPTH_MAX
from answerbus.private.runs import BestOf, Composition
from answerbus.request import ContractRef, Policy, Request
from services.worker.core.run.composition import ComputedStep, FreeBudget
from services.worker.core.run.delegation import call_names, depth_of
from services.worker.core.run.run import PROPOSE, Run
from services.worker.core.schema.resolved import AcceptedStep, WantedCall

PROPOSING_SHARE = 0.75  # of the time that is left: the rest is for the selection
PROPOSALS_MIN = 2  # of fewer there is nothing to select

Cost = tuple[int, int]  # tokens, and millionths of a US dollar, at worst


@dataclass(frozen=True, slots=True)
class Candidate:
    """A proposal that may be chosen; `reference` is how the selector names it."""

    reference: str
    call_id: str
    profile: str
    answer: JsonValue


def wrong_form(request: Request, composition: Composition) -> Problem | None:
    """Why the answer that is asked for cannot be one of its answers, if so."""
    ref, contract = request.answer_schema, composition.answer_contract
    if contract is None or (isinstance(ref, ContractRef) and ref.name == contract):
        return None
    expected = f"the contract {contract}, which the agent proposes"
    return Problem.of("/answer_schema", "contract", expected)


def profiles_of(request: Request, best_of: BestOf) -> tuple[str, ...]:
    """By whom each proposal is made: the profiles take turns."""
    profiles = best_of.profiles or (request.profile,)
    return tuple(profiles[number % len(profiles)] for number in range(best_of.n))


def proposal_of(above: Request, run: Run, args: Mapping[str, JsonValue]) -> Request:
    """What a proposal is asked as, but for its id, time and parent: the very task of the run."""
    context = above.context
    instructions = f"{run.definition.instructions}\n\n{context.instructions}"
    policy = Policy(on_invalid=above.policy.on_invalid, on_refusal=above.policy.on_refusal)
    return Request(
        request_id=above.request_id,
        workflow_id=above.workflow_id,
        answer_schema=above.answer_schema,
        context=context.model_copy(update={"instructions": instructions}),
        profile=str(args.get("profile")),
        budget=above.budget,
        policy=policy,
        labels=above.labels,
        replay=above.replay,
    )


def proposing_until(now: datetime, deadline: datetime) -> datetime:
    """The deadline of proposals: a slow one leaves time to choose among the others."""
    return now + (deadline - now) * PROPOSING_SHARE


def may_propose(request: Request) -> bool:
    """Whether the run may have children at its depth."""
    return depth_of(request) < DEPTH_MAX


def proposing(
    profiles: tuple[str, ...], funds: FreeBudget, proposal: Cost, selection: Cost
) -> ComputedStep | None:
    """The step that asks for proposals: as many as leave an attempt for the selection.

    None if not even two proposals and a selection can be paid for: then the run answers itself.
    """
    number = min(len(profiles), funds.attempts - 1)
    worst = [PROPOSALS_MIN * one + last for one, last in zip(proposal, selection, strict=True)]
    if number < PROPOSALS_MIN or not funds.has(*worst):
        return None
    wanted = tuple(WantedCall(PROPOSE, {"profile": name}) for name in profiles[:number])
    tokens, micro_usd = selection
    reserved_minimum = Spent(
        tokens=0 if funds.tokens is None else tokens,
        micro_usd=0 if funds.micro_usd is None else micro_usd,
    )
    return ComputedStep(AcceptedStep((), wanted, (), None), reserved_minimum)


def has_proposed(run: Run) -> bool:
    """Whether it has asked for proposals itself."""
    return any(call.tool == PROPOSE for step in run.own_steps for call in step.calls)


def failures_of(run: Run) -> tuple[str, ...]:
    """How each proposal ended; of a dead letter its cause."""
    outcomes = (call.outcome for step in run.own_steps for call in run.calls_of(step))
    return tuple(
        outcome.cause if isinstance(outcome, ChildDeadLetter) else outcome.kind
        for outcome in outcomes
        if outcome
    )


def proposed_by(run: Run) -> Iterator[Candidate]:
    """The answers that children have given."""
    for _, calls in call_names(run):
        for name, call in calls:
            if call.asked.tool == PROPOSE and isinstance(call.outcome, CallOk):
                yield Candidate(
                    name,
                    call.asked.call_id,
                    str(call.asked.args.get("profile")),
                    call.outcome.value,
                )
