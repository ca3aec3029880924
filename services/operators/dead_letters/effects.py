"""Tools with effects that may have run for a run that died, in it and in runs below it; pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never

from answerbus import call_outcome as outcomes
from answerbus.call_id import call_name, request_of_call
from answerbus.call_outcome import CallOutcome
from answerbus.envelope import decode
from answerbus.resumed_run import ResumedCall, ResumedRun
from answerbus.step import Step, StepCall, ToolEnded
from answerbus.toolset_card import Delivery
from services.operators.records.stored import Stored

Deliveries = Mapping[str, Delivery]
"""How each tool is called, by qualified name, as its card says."""

OF_A_CALL = ".call."  # is in the id of a call between that of its run and its own place
_NOT_KNOWN = outcomes.CallTimedOut(after_s=0, ran="unknown")


def effects_of(
    resumed: ResumedRun | None, below: Sequence[Stored], deliveries: Deliveries
) -> tuple[ResumedCall, ...]:
    """Calls of tools that are called at most once; of one without a card nothing better is known.

    What a child did is shown by its own steps, among `below`. A child with an agent of which there
    are none may have called anything: then it is listed itself.
    """
    calls = [call for step in resumed.steps for call in step.calls] if resumed else []
    beside = list(_calls(below))
    return tuple(_effects(calls, beside, deliveries))


def _effects(
    calls: Sequence[ResumedCall], below: Sequence[ResumedCall], deliveries: Deliveries
) -> Iterator[ResumedCall]:
    for call in calls:
        if _asks_child(call):
            own = [other for other in below if _is_of_child(other, call)]
            yield from _effects(own, below, deliveries)
            if not own and call.args.get("agent") and _was_asked(call.outcome):
                yield call
        elif deliveries.get(call.tool) != "at_least_once" and may_have_run(call.outcome):
            yield call


def _asks_child(call: ResumedCall) -> bool:
    """Whether no server runs the tool: it has no toolset before it, such as `delegate`."""
    return "." not in call.tool


def _is_of_child(one: ResumedCall, call: ResumedCall) -> bool:
    """Whether the child that a call asked made it: it has the name of the call, or a number."""
    child, name = request_of_call(one.call_id), call_name(call.call_id)
    return child == name or (
        child.startswith(f"{name}.") and child.removeprefix(f"{name}.").isdigit()
    )


def _calls(below: Sequence[Stored]) -> Iterator[ResumedCall]:
    """Each call of these steps, with its end as far as it is known."""
    steps, ends = list[Step](), dict[str, CallOutcome]()
    for stored in below:
        match decode(stored.value, stored.headers):
            case Step() as step:
                steps.append(step)
            case ToolEnded() as ended:
                ends[ended.call_id] = ended.outcome
            case _:
                pass
    for step in steps:
        for call in step.calls:
            yield _resumed(call, ends.get(call.call_id, _NOT_KNOWN))


def _resumed(call: StepCall, outcome: CallOutcome) -> ResumedCall:
    return ResumedCall(
        call_id=call.call_id,
        tool=call.tool,
        args=call.args,
        args_digest=call.args_digest,
        outcome=outcome,
    )


def _was_asked(outcome: CallOutcome) -> bool:
    return not isinstance(outcome, outcomes.InvalidArgs | outcomes.NotRun | outcomes.UnknownTool)


def may_have_run(outcome: CallOutcome) -> bool:
    """Whether a tool may have had its effect, as far as the end of its call shows."""
    match outcome:
        case outcomes.CallOk(same_as=str()):
            return False
        case outcomes.CallOk() | outcomes.CallError() | outcomes.ResultTooLarge():
            return True
        case outcomes.CallTimedOut(ran=ran) | outcomes.ApprovalExpired(ran=ran):
            return ran == "unknown"
        case outcomes.CallCancelled():
            return True  # it may have been called by then
        case outcomes.UnknownTool() | outcomes.InvalidArgs() | outcomes.NotRun():
            return False
        case outcomes.Denied() | outcomes.ChildDeclined() | outcomes.ChildDeadLetter():
            return False
        case _:
            assert_never(outcome)
