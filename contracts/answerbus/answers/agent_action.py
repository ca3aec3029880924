"""The contract `agent_action` v1: an agent's next action, as tool calls, texts and thoughts."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from answerbus.contract import Closed, Contract
from answerbus.limits import NAME_CHARS_MAX

ACTIONS_MAX = 500


class ToolCall(Closed):
    """Call a tool. Whoever runs it decides whether there is one, and what it accepts."""

    kind: Literal["tool_call"]
    name: Annotated[
        str,
        Field(min_length=1, max_length=NAME_CHARS_MAX, description="Name of the tool."),
    ]
    args: Annotated[
        dict[str, JsonValue],
        Field(description='Its arguments as a JSON object, such as {"city": "Paris"} or {}.'),
    ]


class TextResponse(Closed):
    """Say something to whoever asked."""

    kind: Literal["text_response"]
    content: Annotated[str, Field(description="The text.")]


class Thought(Closed):
    """Think aloud; nothing is done."""

    kind: Literal["thought"]
    content: Annotated[str, Field(description="The thought.")]


Action = Annotated[ToolCall | TextResponse | Thought, Field(discriminator="kind")]


class AgentAction(Closed):
    """What to do next, in this order."""

    actions: Annotated[
        tuple[Action, ...],
        Field(min_length=1, max_length=ACTIONS_MAX, description="One action or several."),
    ]


def _from_text(text: str) -> JsonValue:
    return {"actions": [{"kind": "text_response", "content": text}]}


def _from_loose(value: JsonValue) -> JsonValue:
    """One action, or a list of them, without the object around; actions without their `kind`."""
    match value:
        case {"actions": list(actions), **rest} if not rest:
            return {"actions": [_tagged(action) for action in actions]}
        case dict() if "actions" not in value:
            return {"actions": [_tagged(value)]}
        case list():
            return {"actions": [_tagged(action) for action in value]}
        case _:
            return value


def _tagged(action: JsonValue) -> JsonValue:
    """A tool call is known by its members alone; `content` may be a text or a thought."""
    if isinstance(action, dict) and action.keys() == {"name", "args"}:
        return {"kind": "tool_call", **action}
    return action


AGENT_ACTION: Contract[AgentAction] = Contract(
    name="agent_action",
    version=1,
    answer=AgentAction,
    asked=AgentAction,
    summary="What an agent does next: calls of tools, texts, thoughts.",
    from_text=_from_text,
    from_loose=_from_loose,
    examples=(
        {
            "actions": [
                {"kind": "thought", "content": "The order number is known; its state is not."},
                {"kind": "tool_call", "name": "get_order", "args": {"order_id": "4711"}},
                {"kind": "text_response", "content": "I am looking up your order."},
            ]
        },
    ),
)
