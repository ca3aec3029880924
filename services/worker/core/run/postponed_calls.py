"""Calls that may not be written now: they wait as for a silent server; pure.

Of a toolset whose topic cannot be written they would end the transaction of their lane, and with it
the work on all its requests. A tool that needs approval and has changed waits to be accepted.
"""

from datetime import datetime, timedelta

from answerbus.private.runs import RunCallRecord
from services.worker.core.run import events
from services.worker.core.run.events import RunInputs
from services.worker.core.run.run import OWN_TOOLS, Run, ToolCall

POSTPONED = timedelta(seconds=5)  # until the call is looked at again


def may_call(run: Run, call: ToolCall, inputs: RunInputs) -> bool:
    """Whether the call can be written now."""
    return may_call_tool(run, call.asked.tool, inputs)


def may_call_tool(run: Run, name: str, inputs: RunInputs) -> bool:
    """Whether a call of that tool can be: children and people need no toolset."""
    if name in OWN_TOOLS:
        return True
    return not inputs.tools.is_stopped(run.tools[name]) and _is_available(run, name, inputs)


def may_cancel(run: Run, call: ToolCall, inputs: RunInputs) -> bool:
    """Whether the server of a call can be sent its cancellation."""
    return _is_available(run, call.asked.tool, inputs)


def _is_available(run: Run, tool: str, inputs: RunInputs) -> bool:
    return inputs.tools.unavailable.is_available(run.tools[tool].toolset, inputs.now)


def is_postponed(call: ToolCall, inputs: RunInputs) -> bool:
    """Whether it is to be looked at only later."""
    due_at = call.record.due_at if call.record else None
    return due_at is not None and due_at > inputs.now


def postponed(call: ToolCall, inputs: RunInputs) -> RunCallRecord:
    """The call as one that is looked at again; its time begins with the first try."""
    called_at = (call.record.called_at if call.record else None) or inputs.now
    return events.changed(call, inputs, called_at=called_at, due_at=inputs.now + POSTPONED)


def waits_until(run: Run, call: ToolCall, inputs: RunInputs) -> datetime:
    """When its time is over: that of each of its deliveries, and of the one that is not written."""
    record = call.record
    if call.reconciliation or (record is not None and record.state is not None):
        return inputs.deadline  # it is known that it may be delivered again
    tries = record.deliveries + 1 if record else 1
    called_at = (record.called_at if record else None) or inputs.now
    return called_at + tries * run.timeout_of(call)
