"""`best_of`: proposals are asked for, then a model chooses one of them."""

from collections.abc import Callable
from dataclasses import replace

from answerbus.cause import ANY_DIALECT
from answerbus.client.turns import in_turns
from answerbus.dead_letter import Cause, ChildrenFailed, UnsupportedSchema
from answerbus.limits import TOOL_RESULT_BYTES_MAX
from answerbus.private.runs import BestOf
from answerbus.request import Request
from services.worker.core.attempt.plan import Plan
from services.worker.core.run.composition import ComputedStep, FreeBudget
from services.worker.core.run.delegation import reference_of
from services.worker.core.run.made_child import child_key, with_members
from services.worker.core.run.proposing import (
    Candidate,
    Cost,
    failures_of,
    has_proposed,
    may_propose,
    profiles_of,
    proposal_of,
    proposed_by,
    proposing,
    wrong_form,
)
from services.worker.core.run.run import Run
from services.worker.core.run.selecting import choosing, selection_schema
from services.worker.core.schema.resolved import ResolvedSchema, Unusable
from services.worker.planning.planner import Planner
from services.worker.tasks.checking import is_answer

OUTPUT_TOKEN_BYTES = 4  # about what a token of output is in a later prompt


async def best_of(
    planner: Planner,
    request: Request,
    run: Run,
    rule: BestOf,
    funds: Callable[[], FreeBudget],
    selector: str,
) -> Plan | Cause | ComputedStep | None:
    """The proposals, then the selection; None where neither may be asked for."""
    if problem := wrong_form(request, rule):
        return UnsupportedSchema(dialect=ANY_DIALECT, problems=(problem,))
    final = await planner.resolved(request)
    if isinstance(final, Unusable):
        return final.cause

    def asked_to_choose(among: tuple[Candidate, ...]) -> Plan | Cause:
        asked = choosing(request, run, among, planner.room_of(selector))
        return planner.plan_as(asked, lambda: selection_schema(final, among), selector)

    if candidates := await _candidates(planner, request, run, final):
        return asked_to_choose(candidates)
    if run.own_steps:  # without proposals it answers itself, and has asked a person
        return ChildrenFailed(ended=failures_of(run)) if has_proposed(run) else None
    # So does a replay of a run in which each proposal failed.
    if not may_propose(request):
        return None
    return await _proposals(planner, request, run, rule, asked_to_choose, funds)


async def _candidates(
    planner: Planner, request: Request, run: Run, final: ResolvedSchema
) -> tuple[Candidate, ...]:
    """The proposals that are answers, each looked at again."""
    work, owner = planner.costly_work, request.workflow_id
    found = proposed_by(run)
    return tuple([one for one in found if await is_answer(one.answer, final, work, owner)])


async def _proposals(
    planner: Planner,
    request: Request,
    run: Run,
    rule: BestOf,
    asked_to_choose: Callable[[tuple[Candidate, ...]], Plan | Cause],
    funds: Callable[[], FreeBudget],
) -> ComputedStep | Cause | None:
    """A prompt that no profile can take ends the run, before anything is spent."""
    profiles = profiles_of(request, rule)
    requests = {name: proposal_of(request, run, {"profile": name}) for name in profiles}
    plans = {
        name: planner.plan(child, await planner.prepare(child)) for name, child in requests.items()
    }
    able = {name: plan for name, plan in plans.items() if isinstance(plan, Plan)}
    if not able:
        return next(plan for plan in plans.values() if not isinstance(plan, Plan))
    costs = (_cost(plan, requests[name]) for name, plan in able.items())
    worst = [cost async for cost in in_turns(costs)]
    proposal = max(tokens for tokens, _ in worst), max(micro_usd for _, micro_usd in worst)
    output = max(plan.profile.max_output_tokens for plan in able.values()) * OUTPUT_TOKEN_BYTES
    stand_ins = _stand_ins(len(profiles), min(output, TOOL_RESULT_BYTES_MAX))
    selection = asked_to_choose(stand_ins)
    if not isinstance(selection, Plan):
        return selection
    last = _cost(selection, request)
    made = ((child_key({"profile": name}), with_members(one)) for name, one in requests.items())
    children = {key: child async for key, child in in_turns(made)}
    found = proposing(profiles, funds(), proposal, last)
    return found and replace(found, children=children)


def _stand_ins(number: int, size: int) -> tuple[Candidate, ...]:
    """Proposals as long as can be expected, to know what it may cost to choose among them."""
    return tuple(Candidate(reference_of(1, place), "", "", "x" * size) for place in range(number))


def _cost(plan: Plan, request: Request) -> Cost:
    prompt = plan.prompt(request, ())
    return prompt.tokens_max, plan.worst_cost(prompt)
