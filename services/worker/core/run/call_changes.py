"""Changes of a run, and how a change of one of its calls is written; pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from answerbus.budget import Usage
from answerbus.call_outcome import CallOutcome, CallTimedOut, Ran
from answerbus.continued_call import ToolContinue
from answerbus.control import ApprovalRequested, InputRequested
from answerbus.limits import NOTES_MAX
from answerbus.private.runs import RunCallRecord, RunChildRecord, RunStepRecord
from answerbus.reconcile import ToolReconcile
from answerbus.step import Step, ToolEnded
from answerbus.tool_call import ToolCallRecord, ToolCancel
from answerbus.tool_result import ToolOutcome
from services.worker.core.run import events
from services.worker.core.run.events import RunInputs
from services.worker.core.run.run import Run, ToolCall
from services.worker.core.run.tool_outcome import cost_of, outcome_of_tool

Written = (
    Step
    | ToolEnded
    | ApprovalRequested
    | InputRequested
    | ToolCallRecord
    | ToolContinue
    | ToolCancel
    | ToolReconcile
    | RunStepRecord
    | RunCallRecord
    | RunChildRecord
)


@dataclass(frozen=True, slots=True)
class Change:
    """The run afterwards, and the events that say so, in their order."""

    run: Run
    written: tuple[Written, ...] = ()

    def then(self, after: "Change") -> "Change":
        return Change(after.run, (*self.written, *after.written))


def changed_call(run: Run, call: ToolCall, record: RunCallRecord) -> Change:
    return Change(run.with_call(record, call.asked.call_id), (record,))


def end_call(
    run: Run,
    call: ToolCall,
    outcome: CallOutcome,
    inputs: RunInputs,
    micro_usd: int | None = None,
    *,
    reconciled: bool = False,
    kept: Mapping[str, object] = MappingProxyType({}),
) -> Change:
    """The one end of a call, and what else its record keeps."""
    event, link = events.call_ended(
        run.link, call, outcome, inputs, micro_usd, reconciled=reconciled
    )
    ended = {"outcome": outcome, "link": link, "due_at": None, "reconciliation": None}
    record = events.changed(call, inputs, **ended, **kept)
    change = changed_call(run, call, record)
    return Change(change.run, (event, *change.written))


def end_by_tool(
    run: Run,
    call: ToolCall,
    said: ToolOutcome,
    inputs: RunInputs,
    micro_usd: int | None,
    notes: tuple[str, ...] = (),
    *,
    reconciled: bool = False,
) -> Change:
    """Its server has ended a call, and named what it cost."""
    cost = cost_of(micro_usd, inputs.micro_usd_left)
    kept: dict[str, object] = {"notes": (*cost.notes, *notes)[:NOTES_MAX]}
    if cost.micro_usd:
        before = events.changed(call, inputs).usage or Usage()
        kept["usage"] = before.plus(Usage(micro_usd=cost.micro_usd))
    outcome = outcome_of_tool(said)
    return end_call(run, call, outcome, inputs, cost.micro_usd, reconciled=reconciled, kept=kept)


def timed_out(run: Run, call: ToolCall, ran: Ran) -> CallTimedOut:
    return CallTimedOut(after_s=run.tools[call.asked.tool].card.timeout_s, ran=ran)
