"""The calls that a step asks for: which of them may be made, and how each stands at first; pure."""

import json
from typing import assert_never

from answerbus.call_outcome import InvalidArgs, NotRun
from answerbus.failure import Problem
from answerbus.limits import TOOL_ARGS_BYTES_MAX
from answerbus.private.runs import AskedCall
from answerbus.step import CallState
from services.digest import canonical_digest
from services.worker.core.run.events import RunInputs
from services.worker.core.run.run import Run
from services.worker.core.schema.resolved import WantedCall


def asked_call(
    run: Run, wanted: WantedCall, attempt: int, place: int, inputs: RunInputs
) -> AskedCall:
    """One that may not be made has its outcome at once.

    Of those beyond the limit no more is said than that, whatever is wrong with them: a record holds
    what is wrong with so many calls, and not with five hundred.
    """
    outcome = NotRun(which="calls") if place >= run.definition.calls_max else wanted.outcome
    args = wanted.args
    if len(json.dumps(args, ensure_ascii=False).encode()) > TOOL_ARGS_BYTES_MAX:
        expected = f"at most {TOOL_ARGS_BYTES_MAX:,} bytes of arguments"
        too_large = InvalidArgs(problems=(Problem.of("", "too_large", expected),))
        outcome = outcome if isinstance(outcome, NotRun) else too_large
        args = {}
    return AskedCall(
        call_id=f"{inputs.request.request_id}.call.{attempt}.{place}",
        tool=wanted.tool,
        args=args,
        args_digest=canonical_digest(args),
        needs_approval=outcome is None and _needs_approval(run, wanted.tool, inputs),
        outcome=outcome,
    )


def _needs_approval(run: Run, tool: str, inputs: RunInputs) -> bool:
    match run.tools[tool].card.approval:
        case "never":
            return False
        case "always":
            return True
        case "after_untrusted":
            context = inputs.request.context
            trusts = [fact.trust for fact in context.facts] + [m.trust for m in context.messages]
            return run.has_read_untrusted or "untrusted" in trusts
        case rule:
            assert_never(rule)


def states_of(run: Run, calls: tuple[AskedCall, ...], inputs: RunInputs) -> tuple[CallState, ...]:
    """How each call stands once the step is taken."""
    room, states = run.definition.parallel_max, list[CallState]()
    for call in calls:
        if call.outcome is not None:
            states.append("ended")
        elif call.needs_approval:
            states.append("awaits_approval")
        elif room > 0 and inputs.may_call(run.tools[call.tool].toolset, inputs.now):
            states.append("called")
            room -= 1
        else:
            states.append("waiting")
    return tuple(states)
