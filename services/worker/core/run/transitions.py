"""How each event changes a run: a pure function for each row of the table.

Each gives the run as it is then, and all that must be written down with it, in one transaction.
"""

from dataclasses import replace
from datetime import datetime
from typing import assert_never

from answerbus.budget import AccountState, Spent, Usage
from answerbus.call_outcome import (
    CallCancelled,
    CallOk,
    CallOutcome,
    Denied,
    Ran,
)
from answerbus.cause import Cancelled
from answerbus.continued_call import ToolContinue
from answerbus.control import Approval, Input
from answerbus.failure import Problem
from answerbus.private.runs import RunChildRecord, RunStepRecord
from answerbus.reconcile import ToolReconciled
from answerbus.tool_call import CallApproval, ToolCallRecord
from answerbus.tool_result import ToolProgress, ToolResult
from services.text.digest import text_digest
from services.worker.core.run import continuing, events, reconciling
from services.worker.core.run.ask_person import (
    expires_at,
    input_requested,
    problems_of_answer,
)
from services.worker.core.run.asked_calls import DENIED, asked_calls, states_of
from services.worker.core.run.call_changes import (
    Change,
    Written,
    changed_call,
    end_by_tool,
    end_call,
    timed_out,
)
from services.worker.core.run.children import ChildOutcome, outcome_of
from services.worker.core.run.edited_args import edited_args, is_for
from services.worker.core.run.events import RunInputs
from services.worker.core.run.postponed_calls import (
    is_postponed,
    may_call,
    postponed,
    waits_until,
)
from services.worker.core.run.run import Run, ToolCall
from services.worker.core.run.step_record import step_record
from services.worker.core.run.tool_report import InvalidQuestion
from services.worker.core.schema.resolved import AcceptedStep

RunSignal = ToolResult | ToolProgress | InvalidQuestion | ToolReconciled | ChildOutcome
Said = Change | tuple[Problem, ...] | None
"""What a person's decision or answer changes, or why it does not fit; None: it counts no more."""
NO_MINIMUM = Spent()


def take_step(
    run: Run,
    step: AcceptedStep,
    attempt: int,
    usage: Usage,
    retried: Usage,
    account: AccountState,
    inputs: RunInputs,
    reserved_minimum: Spent = NO_MINIMUM,
) -> Change:
    """An answer calls tools: those that may be are called, as many at once as the agent allows.

    `reserved_minimum` is what the next step may cost: its children leave it to the run.
    """
    calls = asked_calls(run, step.calls, attempt, inputs, account.spent)
    record = step_record(run, step, attempt, calls, inputs).model_copy(
        update={
            "usage": usage,
            "retried": None if retried == Usage() else retried,
            "floor": reserved_minimum,
        }
    )
    event, link = events.step_event(run, record, states_of(run, calls, inputs), account, inputs)
    record = record.model_copy(update={"link": link})
    change = Change(run.with_step(record), (event, record))
    change = change.then(_asked_for(change.run, inputs))
    change = change.then(_ended_with_step(change.run, record, inputs))
    for call in change.run.open:
        if call.asked.same_as is not None:
            outcome = _result_of(run, call.asked.same_as)
            change = change.then(end_call(change.run, call, outcome, inputs))
    return change.then(fill_window(change.run, inputs))


def on_signal(run: Run, signal: RunSignal, inputs: RunInputs) -> Change | None:
    """Something arrived from outside of the run; None if it changes nothing."""
    match signal:
        case ToolResult():
            return on_result(run, signal, inputs)
        case ToolProgress():
            return on_progress(run, signal, inputs)
        case InvalidQuestion():
            return on_invalid_question(run, signal, inputs)
        case ToolReconciled():
            change = reconciling.on_reconciled(run, signal, inputs)
            return change and change.then(fill_window(change.run, inputs))
        case ChildOutcome():
            return on_child_outcome(run, signal, inputs)
        case _:
            assert_never(signal)


def on_result(run: Run, result: ToolResult, inputs: RunInputs) -> Change | None:
    """A tool server ends a call; None if it may not, or if the call has ended before."""
    call = run.open_call(result.call_id)
    if call is None or not _fits(call, result.token):
        return None
    said, notes = result.outcome, result.notes
    change = end_by_tool(run, call, said, inputs, result.micro_usd, notes)
    change = change.then(reconciling.without_last_delivery(change.run, call, result.token, inputs))
    return change.then(fill_window(change.run, inputs))


def on_child_outcome(run: Run, child: ChildOutcome, inputs: RunInputs) -> Change:
    """A child that a call asked has ended.

    It answers a call that asks a child. What a tool asked is counted alone: the tool answers.
    """
    call = run.call_of_last_step(child.call_id)
    if call is None:
        return Change(run)
    before, below = events.changed(call, inputs), child.outcome.run
    counted: dict[str, object] = {
        "children": before.children + 1 + (below.children if below else 0),
        "spent": before.spent + child.spent,
        "usage": (before.usage or Usage()).plus(child.usage),
    }
    if not (call.is_open and call.asks_child):
        return changed_call(run, call, events.changed(call, inputs, **counted))
    change = end_call(run, call, outcome_of(child.outcome), inputs, kept=counted)
    return change.then(fill_window(change.run, inputs))


def on_progress(run: Run, progress: ToolProgress, inputs: RunInputs) -> Change | None:
    """A tool server is still at work, so that the time-out starts again; or it asks a person."""
    call = run.open_call(progress.call_id)
    if call is None or call.awaits_person or not _fits(call, progress.token):
        return None
    if progress.asks is not None:
        if inputs.is_ending:
            return None  # no answer would count
        change = continuing.ask(run, call, progress.asks, progress.state, inputs)
        return change.then(fill_window(change.run, inputs))
    due_at = run.due_after_progress(call, inputs.now, inputs.deadline)
    if due_at is None and not continuing.has_kept_state(call, progress):
        return None
    changes = continuing.kept(progress) | {"reconciliation": None}
    if due_at is not None:
        changes["due_at"] = due_at
    return changed_call(run, call, events.changed(call, inputs, **changes))


def on_invalid_question(run: Run, question: InvalidQuestion, inputs: RunInputs) -> Change | None:
    """A tool server asks a person in a way that breaks a rule; None where no question counts."""
    call = run.open_call(question.call_id)
    if call is None or call.awaits_person or inputs.is_ending or not _fits(call, question.token):
        return None
    change = continuing.end_unasked(run, call, question.state, question.why, inputs)
    return change.then(fill_window(change.run, inputs))


def on_timeout(run: Run, inputs: RunInputs, until: datetime | None = None) -> Change:
    """Calls whose time was over by `until`, else by now, are delivered again, or end."""
    change = Change(run)
    for call in run.open:
        due_at = call.record.due_at if call.record else None
        if due_at is None or due_at > (until or inputs.now):
            continue
        change = change.then(_overdue(change.run, call, inputs))
    return change.then(fill_window(change.run, inputs))


def on_person(run: Run, said: Approval | Input, inputs: RunInputs) -> Said:
    """A person decides about a call, or answers a question."""
    match said:
        case Approval():
            return on_approval(run, said, inputs)
        case Input():
            return on_input(run, said, inputs)
        case _:
            assert_never(said)


def on_approval(run: Run, approval: Approval, inputs: RunInputs) -> Said:
    """A person decides about a call; None unless it waits for that, with these arguments."""
    call = run.open_call(approval.call_id)
    if call is None or not call.awaits_approval or inputs.is_ending:
        return None
    if not is_for(approval, call):
        return None
    if approval.decision == "denied":
        denied = Denied(by=approval.by, reason=approval.reason)
        outcome = timed_out(run, call, "unknown") if call.reconciliation else denied
        change = end_call(run, call, outcome, inputs)
        return change.then(fill_window(change.run, inputs))
    if approval.args is not None:
        edited = edited_args(run, call, approval, approval.args, inputs)
        if isinstance(edited, tuple):
            return edited
        call = replace(call, record=events.changed(call, inputs, edited=edited))
        if edited.policy and edited.policy.enforced == "deny":
            change = end_call(run, call, DENIED, inputs)
            return change.then(fill_window(change.run, inputs))
    approved = CallApproval(by=approval.by, reason=approval.reason, at=approval.at)
    if call.reconciliation:
        change = reconciling.repeat(run, call, inputs, ran="unknown", approved=approved)
    else:
        change = changed_call(run, call, events.changed(call, inputs, approved=approved))
    return change.then(fill_window(change.run, inputs))


def on_input(run: Run, given: Input, inputs: RunInputs) -> Said:
    """A person answers a question."""
    call = run.open_call(given.call_id)
    if call is None or not call.awaits_input or inputs.is_ending:
        return None
    if call.asks is not None:
        said = continuing.answered(run, call, call.asks, given, inputs)
        return said.then(fill_window(said.run, inputs)) if isinstance(said, Change) else said
    if given.number != 1:  # a model asks once in a call
        return None
    if problems := problems_of_answer(call.asked.args["json_schema"], given.value):
        return problems
    change = end_call(run, call, CallOk(value=given.value), inputs)
    return change.then(fill_window(change.run, inputs))


def stopped(run: Run, cause: Cancelled, inputs: RunInputs) -> Change:
    """The run ends with calls open: each ends, and tool servers are informed.

    What a person was asked for has expired if the deadline is why.
    """
    change, is_over = Change(run), inputs.now >= inputs.deadline
    cancelled = CallCancelled(by=cause.by, reason=cause.reason)
    for call in run.open:
        outcome: CallOutcome = cancelled
        if is_over and call.awaits_person:
            was_made = call.reconciliation is not None
            outcome = timed_out(run, call, "unknown") if was_made else continuing.in_vain(call)
        change = change.then(end_call(change.run, call, outcome, inputs))
        change = continuing.cancelled(change, call, cause.reason, inputs)
    return change


def fill_window(run: Run, inputs: RunInputs) -> Change:
    """Call what may be called, up to as many at once as the agent allows."""
    change = Change(run)
    if inputs.is_ending:
        return change
    room = run.definition.parallel_max - sum(call.is_called for call in run.open)
    for call in run.open:
        if room <= 0 or not call.is_waiting or is_postponed(call, inputs):
            continue
        if may_call(run, call, inputs):
            change = change.then(_call(change.run, call, inputs))
            room -= 1
        else:
            change = change.then(changed_call(change.run, call, postponed(call, inputs)))
    return change


def _asked_for(run: Run, inputs: RunInputs) -> Change:
    """Requests the approvals and answers of people that the taken step needs, if it goes on."""
    change = Change(run)
    if inputs.is_ending:
        return change
    for call in run.open:
        if call.asked.has_ended:
            continue  # it has the result of an equal one
        if call.awaits_approval:
            change = change.then(Change(change.run, (events.approval_requested(call, inputs),)))
        elif call.awaits_input:
            args = call.asked.args
            until = expires_at(args.get("expires_s"), inputs)
            requested = Change(change.run, (input_requested(call, args, until, inputs),))
            record = events.changed(call, inputs, called_at=inputs.now, due_at=until)
            change = change.then(requested).then(changed_call(change.run, call, record))
    return change


def _ended_with_step(run: Run, step: RunStepRecord, inputs: RunInputs) -> Change:
    """The calls that are not made, which may be hundreds: the step's record has their ends.

    The last one has a record of its own, by which the chain goes on.
    """
    written, last, link = list[Written](), None, run.link
    for call in run.calls_of(step):
        if call.asked.outcome is not None:
            ended, link = events.call_ended(link, call, call.asked.outcome, inputs)
            written.append(ended)
            last = call
    if last is None:
        return Change(run)
    record = events.changed(last, inputs, link=link, outcome=last.outcome)
    return Change(run, tuple(written)).then(changed_call(run, last, record))


def _result_of(run: Run, call_id: str) -> CallOk:
    """The result of a call of the step before, as that of an equal one."""
    record = run.calls[call_id]
    if not isinstance(record.outcome, CallOk):
        raise TypeError("a call that answers others has a result")
    return record.outcome.model_copy(update={"same_as": call_id})  # a large value is checked once


def _overdue(run: Run, call: ToolCall, inputs: RunInputs) -> Change:
    if call.awaits_input:
        return continuing.expired(run, call, inputs)
    if reconciling.is_to_be_found_out(run, call, inputs):
        return reconciling.find_out(run, call, inputs)
    card = run.tools[call.asked.tool].card
    is_unsent = not call.is_called  # it could not be written yet
    is_repeatable = card.delivery == "at_least_once" or continuing.is_continued(call)
    may_repeat = is_repeatable and reconciling.has_delivery_left(call)
    is_last = inputs.is_ending or not (is_unsent or may_repeat)
    is_available = may_call(run, call, inputs)
    if is_available and is_unsent and not is_last:  # the window says when
        return changed_call(run, call, events.changed(call, inputs, due_at=None))
    if is_available and not is_last:
        return _call(run, call, inputs)
    if not is_last and inputs.now < waits_until(run, call, inputs):
        return changed_call(run, call, postponed(call, inputs))
    ran: Ran = "unknown" if call.is_known_to_server or call.next_delivery > 1 else "no"
    ran = call.reconciliation.ran if call.reconciliation else ran
    change = end_call(run, call, timed_out(run, call, ran), inputs)
    if call.record and call.record.state is not None:
        return continuing.cancelled(change, call, "its time is over", inputs)
    return change


def _call(run: Run, call: ToolCall, inputs: RunInputs) -> Change:
    event: ToolCallRecord | ToolContinue | RunChildRecord
    if call.asks_child:
        event, record = events.child_asked(run, call, inputs)
    else:
        event, record = events.delivered(run, call, inputs)
    change = changed_call(run, call, record)
    return Change(change.run, (event, *change.written))


def _fits(call: ToolCall, token: str) -> bool:
    """Whether who says it could read the call, in one of its deliveries."""
    return call.record is not None and text_digest(token) in call.record.tokens
