"""The tool calls of a step: which of them may be made, and the first state of each; pure."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import assert_never

from pydantic_core import to_json

from answerbus.budget import Spent
from answerbus.call_id import call_id
from answerbus.call_outcome import CallOutcome, Denied, InvalidArgs, NotRun
from answerbus.failure import Problem
from answerbus.limits import KIB, TOOL_ARGS_BYTES_MAX
from answerbus.policy import PolicyVerdict
from answerbus.private.runs import AskedCall
from answerbus.request import Request
from answerbus.request_key import RequestKey
from answerbus.step import CallState
from services.text.digest import canonical_digest
from services.worker.core.guard.effort import sparing
from services.worker.core.run.ask_person import read_question
from services.worker.core.run.children import made
from services.worker.core.run.delegation import calls_so_far, depth_of
from services.worker.core.run.events import RunInputs
from services.worker.core.run.made_child import MadeChild, child_key
from services.worker.core.run.policy import compiled, judged_value, strictness
from services.worker.core.run.postponed_calls import may_call_tool
from services.worker.core.run.proposing import proposal_of
from services.worker.core.run.repeats import EarlierCalls, earlier_calls
from services.worker.core.run.run import ASK_PERSON, DELEGATE, OWN_TOOLS, PROPOSE, Run
from services.worker.core.schema.resolved import AcceptedStep, JsonObject, WantedCall

POLICY_STEP_NS_MAX = 10_000_000  # of judging all calls of a step; those beyond it are not judged
PROBLEMS_BYTES_MAX = 16 * KIB  # of one call, as JSON
DENIED = Denied(by="policy", reason="the rules of this agent do not allow these arguments")


def asked_call(
    run: Run,
    wanted: WantedCall,
    attempt: int,
    place: int,
    inputs: RunInputs,
    room: int,
    earlier: EarlierCalls,
) -> AskedCall:
    """One that may not be made has its outcome at once. `room` is for so many children.

    Of those beyond the limit no more is said than that, not what else is wrong: a record holds
    what is wrong with so many calls, and not with five hundred.
    """
    outcome = NotRun(which="calls") if place >= run.definition.calls_max else wanted.outcome
    args, args_digest = wanted.args, wanted.args_digest
    if _are_too_large(args):
        expected = f"at most {TOOL_ARGS_BYTES_MAX:,} bytes of arguments"
        too_large = InvalidArgs(problems=(Problem.of("", "too_large", expected),))
        outcome = outcome if isinstance(outcome, NotRun) else too_large
        args, args_digest = {}, canonical_digest({})
    key = wanted.tool, args_digest
    if outcome is None and key in earlier.closed:
        outcome = NotRun(which="repeats")
    same_as = earlier.answered.get(key) if outcome is None else None
    if outcome is None and same_as is None and wanted.tool == DELEGATE:
        outcome = _not_asked(run, args, room, inputs)
    if outcome is None and wanted.tool == PROPOSE:
        outcome = _invalid(inputs.problems_of(proposal_of(inputs.request, run, args)))
    if outcome is None and same_as is None and wanted.tool == ASK_PERSON:
        found = read_question(inputs.request, run, args)
        outcome = _invalid(inputs.problems_of(found) if isinstance(found, Request) else found)
    if isinstance(outcome, InvalidArgs):
        outcome = InvalidArgs(problems=_first_that_fit(outcome.problems))
    return AskedCall(
        call_id=call_id(RequestKey.of(inputs.request), attempt, place),
        tool=wanted.tool,
        args=args,
        args_digest=args_digest,
        needs_approval=outcome is None
        and same_as is None
        and _needs_approval(run, wanted.tool, inputs),
        outcome=outcome,
        same_as=same_as,
    )


def _first_that_fit(problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
    """Control characters take six bytes each in JSON, and a record holds those of 32 calls."""
    sizes = accumulate(len(problem.model_dump_json().encode()) for problem in problems)
    return problems[: max(sum(size <= PROBLEMS_BYTES_MAX for size in sizes), 1)]


def asked_calls(
    run: Run, wanted_calls: Sequence[WantedCall], attempt: int, inputs: RunInputs, spent: Spent
) -> tuple[AskedCall, ...]:
    """The calls of one step, and what each child of it may use; `spent` is of its account."""
    calls, earlier, children, most = list[AskedCall](), earlier_calls(run), 0, children_left(run)
    for place, one in enumerate(wanted_calls):
        calls.append(asked_call(run, one, attempt, place, inputs, most - children, earlier))
        children += _asks_child(calls[-1])
    with sparing(POLICY_STEP_NS_MAX):
        calls = [_judged(run, call, inputs, spent) for call in calls]
    allowed = run.definition.delegate
    if allowed is None or allowed.split == "pool":
        return tuple(calls)
    caps = iter(_equal_parts(inputs.attempts_left - run.reserved_minimum.attempts, children))
    return tuple(
        call.model_copy(update={"cap": next(caps)}) if _asks_child(call) else call for call in calls
    )


def wanted_children(
    request: Request, run: Run, step: AcceptedStep
) -> Iterator[tuple[str, MadeChild | tuple[Problem, ...]]]:
    """The children that a step would ask, by their calls' arguments (see `child_key`)."""
    wanted, earlier = step.calls[: run.definition.calls_max], earlier_calls(run)
    different = {
        child_key(one.args): one.args
        for one in wanted
        if one.tool == DELEGATE and one.outcome is None and not _asks_no_child(one, earlier)
    }
    yield from ((key, made(request, run, args)) for key, args in different.items())


def _asks_no_child(wanted: WantedCall, earlier: EarlierCalls) -> bool:
    """Whether the call ends without a child for reasons that need none to be made."""
    if _are_too_large(wanted.args):
        return True
    key = wanted.tool, wanted.args_digest
    return key in earlier.closed or key in earlier.answered


def _are_too_large(args: JsonObject) -> bool:
    return len(to_json(args)) > TOOL_ARGS_BYTES_MAX


def children_left(run: Run) -> int:
    """How many children the run may ask for still."""
    return (
        run.definition.delegate.children_max - calls_so_far(run) if run.definition.delegate else 0
    )


def wanted_questions(request: Request, run: Run, step: AcceptedStep) -> Iterator[Request]:
    """What a step would ask people, as far as they can be asked at all."""
    for wanted in step.calls[: run.definition.calls_max]:
        if wanted.tool == ASK_PERSON and wanted.outcome is None:
            question = read_question(request, run, wanted.args)
            if isinstance(question, Request):
                yield question


def _asks_child(call: AskedCall) -> bool:
    return call.tool == DELEGATE and not call.has_ended


def _equal_parts(attempts: int, children: int) -> Iterator[int]:
    """As equal as whole numbers are: the first have one more where it does not come out even."""
    part, rest = divmod(max(attempts, 0), children) if children else (0, 0)
    return (part + (number < rest) for number in range(children))


def _not_asked(run: Run, args: JsonObject, room: int, inputs: RunInputs) -> CallOutcome | None:
    """Why a child is not asked, which costs nothing; there is `room` for so many."""
    allowed = run.definition.delegate
    if allowed is None or depth_of(inputs.request) >= allowed.depth_max:
        return NotRun(which="depth")
    if room <= 0:
        return NotRun(which="children")
    child = inputs.children.get(child_key(args)) or made(inputs.request, run, args)
    return _invalid(inputs.problems_of(child.request) if isinstance(child, MadeChild) else child)


def _invalid(problems: tuple[Problem, ...]) -> CallOutcome | None:
    return InvalidArgs(problems=problems) if problems else None


def verdict_on(
    run: Run, tool: str, args: JsonObject, inputs: RunInputs, spent: Spent
) -> PolicyVerdict | None:
    """By the policy that the run began with, or a stricter present one where the settings say so.

    `run` is as it was before the step of the call. None where the tool has no policy.
    """
    policies = run.tools[tool].policy, inputs.tools.current_policy(run.agent, tool)
    if not any(policies):
        return None
    value = judged_value(
        inputs.request,
        args,
        len(run.steps),
        spent,
        untrusted_read=_has_read_untrusted(run, inputs),
    )
    verdicts = [compiled(policy).verdict(value) for policy in policies if policy]
    return max(verdicts, key=strictness)


def _judged(run: Run, call: AskedCall, inputs: RunInputs, spent: Spent) -> AskedCall:
    if call.has_ended or call.tool in OWN_TOOLS:
        return call
    policy = verdict_on(run, call.tool, call.args, inputs, spent)
    if policy is None:
        return call
    changes: dict[str, object] = {"policy": policy}
    match policy.enforced:
        case "allow":
            pass
        case "ask":
            changes["needs_approval"] = True
        case "deny":
            changes |= {"needs_approval": False, "outcome": DENIED}
        case verdict:
            assert_never(verdict)
    return call.model_copy(update=changes)


def _needs_approval(run: Run, tool: str, inputs: RunInputs) -> bool:
    if tool in OWN_TOOLS:
        return False
    match run.tools[tool].card.approval:
        case "never":
            return False
        case "always":
            return True
        case "after_untrusted":
            return _has_read_untrusted(run, inputs)
        case rule:
            assert_never(rule)


def _has_read_untrusted(run: Run, inputs: RunInputs) -> bool:
    context = inputs.request.context
    trusts = [fact.trust for fact in context.facts] + [m.trust for m in context.messages]
    # What a child is given was written by a model, or by a tool.
    is_child = inputs.request.parent is not None
    return is_child or run.has_read_untrusted or "untrusted" in trusts


def states_of(run: Run, calls: tuple[AskedCall, ...], inputs: RunInputs) -> tuple[CallState, ...]:
    """The state of each call once the step is taken; a run that is ending calls nothing."""
    room, states = 0 if inputs.is_ending else run.definition.parallel_max, list[CallState]()
    for call in calls:
        if call.has_ended:
            states.append("ended")
        elif call.tool == ASK_PERSON:
            states.append("awaits_input")
        elif call.needs_approval:
            states.append("awaits_approval")
        elif room > 0 and may_call_tool(run, call.tool, inputs):
            states.append("called")
            room -= 1
        else:
            states.append("waiting")
    return tuple(states)
