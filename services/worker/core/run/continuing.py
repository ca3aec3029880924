"""Calls with which their servers go on later, and what their tools ask people; pure.

A server that keeps its state with a progress need not be asked what became of the call: it is sent
that state again, and goes on. A question ends its work until a person has answered.
"""

from dataclasses import replace

from pydantic_core import to_json

from answerbus.call_outcome import ApprovalExpired, CallError
from answerbus.continued_call import GivenInput, ToolQuestion
from answerbus.control import Input
from answerbus.failure import Problem
from answerbus.json_values import has_more_values
from answerbus.limits import CALL_INPUTS_MAX, EDITED_ARGS_VALUES_MAX, REASON_BYTES_MAX
from answerbus.tool_result import INPUT_REQUIRED, ToolProgress
from answerbus.wire import clip
from services.text.digest import text_digest
from services.worker.core.run import events
from services.worker.core.run.ask_person import (
    expires_at,
    input_requested,
    problems_of_answer,
    problems_of_schema,
)
from services.worker.core.run.call_changes import Change, changed_call, end_call
from services.worker.core.run.events import RunInputs
from services.worker.core.run.postponed_calls import may_cancel
from services.worker.core.run.run import Run, ToolCall


def is_continued(call: ToolCall) -> bool:
    """Whether its server goes on with it however often it is asked to."""
    record = call.record
    return record is not None and record.state is not None and record.given is None


def has_kept_state(call: ToolCall, progress: ToolProgress) -> bool:
    """Whether progress says more than that a server is at work: by what it goes on with the call.

    An answer that was delivered is used when its server has a state again.
    """
    if progress.state is None or call.record is None:
        return False
    return progress.state != call.record.state or call.record.given is not None


def kept(progress: ToolProgress) -> dict[str, object]:
    """What the record of a call keeps of progress with a state: it may be sent again as often."""
    if progress.state is None:
        return {}
    tokens = (text_digest(progress.token),)
    return {"state": progress.state, "given": None, "deliveries": 1, "tokens": tokens}


def ask(
    run: Run, call: ToolCall, asks: ToolQuestion, state: str | None, inputs: RunInputs
) -> Change:
    """A tool asks a person; where no person can be asked, its call ends."""
    number = events.changed(call, inputs).inputs_asked + 1
    if why := clip(_unasked(run, asks, state, number), REASON_BYTES_MAX):
        return end_unasked(run, call, state, why, inputs)
    call = _with_state(call, state, inputs)
    until = expires_at(asks.expires_s, inputs)
    record = events.changed(
        call,
        inputs,
        asks=asks,
        inputs_asked=number,
        given=None,
        due_at=until,
        reconciliation=None,
    )
    tool = call.asked.tool
    question = input_requested(call, dict(asks), until, inputs, tool=tool, number=number)
    return Change(run, (question,)).then(changed_call(run, call, record))


def end_unasked(run: Run, call: ToolCall, state: str | None, why: str, inputs: RunInputs) -> Change:
    """No person can be asked: the call ends, and its server gives up what it keeps for it."""
    call = _with_state(call, state, inputs)
    change = end_call(run, call, CallError(code=INPUT_REQUIRED, message=why), inputs)
    return cancelled(change, call, why, inputs)


def _with_state(call: ToolCall, state: str | None, inputs: RunInputs) -> ToolCall:
    """The call with the state that a question names, else with the one before."""
    known = events.changed(call, inputs)
    after = known if state is None else known.model_copy(update={"state": state})
    return replace(call, record=after)


def answered(
    run: Run, call: ToolCall, asks: ToolQuestion, said: Input, inputs: RunInputs
) -> Change | tuple[Problem, ...] | None:
    """A person answers, or declines to with null: the call goes to its server again.

    As for the first time: earlier servers of the call have no say, and no delivery is used.
    """
    if said.number != events.changed(call, inputs).inputs_asked:
        return None
    if said.value is not None and (problems := problems_of_answer(asks.json_schema, said.value)):
        return problems
    if has_more_values(to_json(said.value), EDITED_ARGS_VALUES_MAX):
        expected = f"at most {EDITED_ARGS_VALUES_MAX:,} JSON values beside those of the call"
        return (Problem.of("", "too_large", expected),)
    given = GivenInput(value=said.value, by=said.by)
    record = events.changed(
        call, inputs, asks=None, given=given, deliveries=0, tokens=(), due_at=None
    )
    return changed_call(run, call, record)


def expired(run: Run, call: ToolCall, inputs: RunInputs) -> Change:
    """The answer of a person did not come in time."""
    change = end_call(run, call, in_vain(call), inputs)
    return cancelled(change, call, "no person answered in time", inputs)


def in_vain(call: ToolCall) -> ApprovalExpired:
    """The end of a call for which a person was asked; a tool that asked had begun."""
    return ApprovalExpired(ran="unknown" if call.asks else "no")


def cancelled(change: Change, call: ToolCall, reason: str, inputs: RunInputs) -> Change:
    """Its server need not go on with what it keeps for the call."""
    if call.asks_child or not call.is_known_to_server or not may_cancel(change.run, call, inputs):
        return change
    return Change(change.run, (*change.written, events.stop(change.run, call, reason, inputs)))


def _unasked(run: Run, asks: ToolQuestion, state: str | None, number: int) -> str:
    """Why no person is asked; empty if one is."""
    if state is None:
        return "its server asks for input, and keeps no state: the call would begin again"
    if not run.definition.ask_person:
        return "its server asks for input, and this agent may not ask people"
    if number > CALL_INPUTS_MAX:
        return f"its server asks for input more than {CALL_INPUTS_MAX} times"
    if problems := problems_of_schema(asks.json_schema):
        return f"its server asks for input of a form that cannot be used: {problems[0].expected}"
    return ""
