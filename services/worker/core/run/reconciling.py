"""Finds out what became of a call that must not run twice and has no result; pure.

Its server is asked, some times, and then a person. A question waits until no server that keeps the
time-out of the tool can still be at work on the call: what is found then stays true.
"""

from datetime import timedelta
from typing import assert_never

from answerbus.call_outcome import Ran
from answerbus.limits import TOOL_DELIVERIES_MAX
from answerbus.private.runs import Reconciliation
from answerbus.reconcile import DidNotHappen, Happened, NotKnown, ToolReconciled
from answerbus.tool_result import ToolOk
from services.text.digest import text_digest
from services.worker.core.run import events
from services.worker.core.run.call_changes import (
    Change,
    changed_call,
    end_by_tool,
    end_call,
    timed_out,
)
from services.worker.core.run.continuing import is_continued
from services.worker.core.run.events import RunInputs
from services.worker.core.run.postponed_calls import may_cancel, postponed
from services.worker.core.run.run import Run, ToolCall

END_OF_TOOLS = timedelta(seconds=5)  # after its time-out a tool cleans up, and clocks differ


def is_to_be_found_out(run: Run, call: ToolCall, inputs: RunInputs) -> bool:
    """Whether the call was delivered, and nothing else is done before its fate is known."""
    card = run.tools[call.asked.tool].card
    is_once = card.delivery == "at_most_once" and card.reconcilable
    return is_once and call.is_called and not is_continued(call) and not inputs.is_ending


def find_out(run: Run, call: ToolCall, inputs: RunInputs) -> Change:
    """The time of such a call is over, or that of the last question about it."""
    state = call.reconciliation
    if state is None:  # it may run for one time-out more
        due_at = min(inputs.now + run.timeout_of(call) + END_OF_TOOLS, inputs.deadline)
        begun = events.changed(call, inputs, reconciliation=Reconciliation(), due_at=due_at)
        return changed_call(run, call, begun)
    if state.questions < run.definition.reconcile_max:
        return _ask_server(run, call, state, inputs)
    if not has_delivery_left(call):
        return end_call(run, call, timed_out(run, call, "unknown"), inputs)
    asking = Reconciliation(state="asks_person")
    record = events.changed(call, inputs, reconciliation=asking, due_at=None)
    requested = Change(run, (events.approval_requested(call, inputs),))
    return requested.then(changed_call(run, call, record))


def _ask_server(run: Run, call: ToolCall, state: Reconciliation, inputs: RunInputs) -> Change:
    if not may_cancel(run, call, inputs):
        return changed_call(run, call, postponed(call, inputs))
    number = call.record.questions + 1 if call.record else 1
    due_at = min(inputs.now + run.timeout_of(call), inputs.deadline)
    question = events.reconcile(run, call, number, due_at, inputs)
    asking = Reconciliation(questions=state.questions + 1, token=text_digest(question.reply.token))
    record = events.changed(call, inputs, questions=number, reconciliation=asking, due_at=due_at)
    return Change(run, (question,)).then(changed_call(run, call, record))


def on_reconciled(run: Run, said: ToolReconciled, inputs: RunInputs) -> Change | None:
    """A server has found out the fate of a call; None unless it answers the last question.

    What was found before that can be true no more. What decides nothing waits for the next
    question, as for a server that says nothing.
    """
    call = run.open_call(said.call_id)
    state = call.reconciliation if call else None
    if call is None or state is None or state.token != text_digest(said.token):
        return None
    match said.finding:
        case Happened(value=value, micro_usd=cost):
            done = ToolOk(value=value)
            return end_by_tool(run, call, done, inputs, cost, said.notes, reconciled=True)
        case DidNotHappen():
            return repeat(run, call, inputs, ran="no")
        case NotKnown():
            return None
        case finding:
            assert_never(finding)


def repeat(run: Run, call: ToolCall, inputs: RunInputs, *, ran: Ran, **more: object) -> Change:
    """One more delivery, if the call has one left; the window says when."""
    if not has_delivery_left(call):
        return end_call(run, call, timed_out(run, call, ran), inputs, kept=more)
    state = Reconciliation(state="may_repeat", ran=ran)
    record = events.changed(call, inputs, reconciliation=state, due_at=None, **more)
    return changed_call(run, call, record)


def without_last_delivery(run: Run, call: ToolCall, token: str, inputs: RunInputs) -> Change:
    """An earlier delivery of a call that must not run twice has a result: the last is cancelled."""
    is_once = run.tools[call.asked.tool].card.delivery == "at_most_once"
    is_last = call.record is None or call.record.tokens[-1] == text_digest(token)
    if is_last or not (is_once and may_cancel(run, call, inputs)):
        return Change(run)
    return Change(run, (events.stop(run, call, "an earlier delivery has a result", inputs),))


def has_delivery_left(call: ToolCall) -> bool:
    """Whether it may be delivered once more at all."""
    return call.next_delivery <= TOOL_DELIVERIES_MAX
