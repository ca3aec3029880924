"""One line about an event of a tool, for people; pure."""

from typing import assert_never

from answerbus.continued_call import ToolContinue
from answerbus.reconcile import ToolReconcile, ToolReconciled
from answerbus.tool_call import ToolCallRecord, ToolCancel
from answerbus.tool_event import ToolEvent
from answerbus.tool_result import ToolFailure, ToolOk, ToolProgress, ToolResult
from answerbus.toolset_card import ToolAccepted, ToolsetCard
from services.text.escaping import plain_line


def tool_text(event: ToolEvent) -> str:
    """Which tool, and the outcome of its call; no arguments and no values."""
    match event:
        case ToolCallRecord():
            again = f", delivery {event.delivery}" if event.delivery > 1 else ""
            return plain_line(f"calls {event.toolset}.{event.tool} as {event.call_id}{again}")
        case ToolContinue(given=given):
            how = "with an answer" if given else "from what its server kept"
            return plain_line(f"goes on with the call {event.call_id} {how}")
        case ToolCancel():
            return plain_line(f"cancels the call {event.call_id}: {event.reason}")
        case ToolReconcile():
            return plain_line(f"asks whether the call {event.call_id} had its effect")
        case ToolReconciled():
            found = event.finding.kind.replace("_", " ")
            return plain_line(f"the effect of the call {event.call_id}: {found}")
        case ToolProgress():
            how = "asks a person" if event.asks else f"goes on: {event.note}"
            return plain_line(f"the call {event.call_id} {how}")
        case ToolResult():
            return _result_text(event)
        case ToolsetCard():
            return f"the toolset {event.toolset} has {len(event.tools)} tools"
        case ToolAccepted():
            by = f"accepted by {event.said_by or event.by}" if event.by else "first seen"
            return plain_line(f"the tool {event.name} is {by}, with approval {event.card.approval}")
        case _:
            assert_never(event)


def _result_text(result: ToolResult) -> str:
    match result.outcome:
        case ToolOk():
            return f"the call {result.call_id} ended well"
        case ToolFailure(code=code, message=message):
            return plain_line(f"the call {result.call_id} failed, {code}: {message}")
        case other:
            assert_never(other)
