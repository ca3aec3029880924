"""The events of tools, and the wire form of each: id and key."""

from typing import assert_never

from answerbus.continued_call import ToolContinue
from answerbus.reconcile import ToolReconcile, ToolReconciled
from answerbus.tool_call import ToolCallRecord, ToolCancel
from answerbus.tool_result import ToolProgress, ToolResult
from answerbus.toolset_card import ToolAccepted, ToolsetCard
from answerbus.wire import format_timestamp

ToolEvent = (
    ToolCallRecord
    | ToolContinue
    | ToolCancel
    | ToolReconcile
    | ToolResult
    | ToolProgress
    | ToolReconciled
    | ToolsetCard
    | ToolAccepted
)


def event_id(event: ToolEvent) -> str:
    """Derived from the call's id, so that a repeated event carries the same."""
    match event:
        case ToolCallRecord():
            return f"{event.call_id}.{event.delivery}"
        case ToolContinue():
            return f"{event.call_id}.continued.{format_timestamp(event.at)}"
        case ToolCancel():
            return f"{event.call_id}.cancel"
        case ToolResult():
            return f"{event.call_id}.result"
        case ToolProgress():
            return f"{event.call_id}.progress.{event.n}"
        case ToolReconcile():
            return f"{event.call_id}.reconcile.{event.question}"
        case ToolReconciled():
            return f"{event.call_id}.reconciled.{event.question}"
        case ToolsetCard():
            return f"toolset:{event.toolset}"
        case ToolAccepted():
            return f"{event.name}.accepted.{format_timestamp(event.at)}"
        case _:
            assert_never(event)


def key(event: ToolEvent) -> str:
    """The record key: a call and what is said about it share it, and so a partition."""
    match event:
        case ToolCallRecord() | ToolContinue() | ToolCancel() | ToolReconcile():
            return event.call_id
        case ToolResult() | ToolProgress() | ToolReconciled():
            return event.workflow_id
        case ToolsetCard():
            return event.toolset
        case ToolAccepted():
            return event.name
        case _:
            assert_never(event)
