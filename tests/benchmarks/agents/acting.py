"""What the stub answers to agents: so many steps with tool calls, then a text; told by the prompt.

How many steps were made is in the prompt itself, as turns of the assistant: the stub remembers
nothing. Callers that offer `tools` get calls in the manner of Chat Completions, all others get
actions as answerbus asks for them.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_ASSISTANT = re.compile(rb'"role":\s*"assistant"')
_TOOLS = re.compile(rb'"tools":\s*\[')
_USAGE = {"prompt_tokens": 812, "completion_tokens": 64, "total_tokens": 876}
END_TEXT = "All is done."


@dataclass(frozen=True, slots=True)
class Plan:
    """`steps` answers with a call of each of `tools`, before the last one.

    Without a toolset they are answerbus' own. `args` are those of each call, else its run and step.
    """

    steps: int
    tools: tuple[str, ...] = ("echo",)
    toolset: str = "bench"
    args: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Acted:
    """The body of an answer, what the model said in it, and whether it is the last of its run."""

    content: bytes
    said: str
    is_end: bool


def acting(plan: Plan) -> Callable[[bytes, bytes], Acted]:
    """What a request body is answered with; the second argument is the run's id."""

    def answer(body: bytes, run: bytes) -> Acted:
        done = len(_ASSISTANT.findall(body))
        is_end = done >= plan.steps
        args = plan.args or {"run": run.decode(), "number": done + 1}
        message = _native if _TOOLS.search(body) else _actions
        calls = () if is_end else plan.tools
        reported = message(plan, calls, args)
        return Acted(_completion(reported), reported["content"] or "", is_end)

    return answer


def _actions(plan: Plan, tools: tuple[str, ...], args: dict[str, Any]) -> dict[str, Any]:
    prefix = f"{plan.toolset}." if plan.toolset else ""
    actions: list[dict[str, Any]] = [
        {"kind": "tool_call", "name": f"{prefix}{tool}", "args": args} for tool in tools
    ]
    if not tools:
        actions.append({"kind": "text_response", "content": END_TEXT})
    return {"content": json.dumps({"actions": actions}), "refusal": None}


def _native(_: Plan, tools: tuple[str, ...], args: dict[str, Any]) -> dict[str, Any]:
    if not tools:
        return {"content": END_TEXT, "refusal": None}
    text = json.dumps(args)
    calls = [
        {
            "id": f"call_{args['run']}_{args['number']}_{place}",
            "type": "function",
            "function": {"name": tool, "arguments": text},
        }
        for place, tool in enumerate(tools)
    ]
    return {"content": None, "refusal": None, "tool_calls": calls}


def _completion(message: dict[str, Any]) -> bytes:
    reason = "tool_calls" if "tool_calls" in message else "stop"
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}
    document = {"id": "chatcmpl-stub", "object": "chat.completion", "created": 1, "model": "stub"}
    return json.dumps({**document, "choices": [choice], "usage": _USAGE}).encode()
