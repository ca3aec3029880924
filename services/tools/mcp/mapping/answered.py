"""Maps an MCP server's answer to a tool's return value or error; pure."""

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from answerbus.tools.core.failing import ToolError

TOOL_ERROR = "tool_error"  # the server's tool says itself that it failed
MCP_ERROR = "mcp_error"  # the server did not take the call

Part = Mapping[str, JsonValue]


def value_of(structured: JsonValue, parts: Sequence[Part]) -> JsonValue:
    """The structured content if there is some, else one text as a text, else the parts."""
    if structured is not None:
        return structured
    texts = [part.get("text") for part in parts if part.get("type") == "text"]
    if len(texts) == len(parts) == 1:
        return texts[0]
    return [dict(part) for part in parts]


def failure_of(parts: Sequence[Part]) -> ToolError:
    """What a tool says went wrong, as one text."""
    texts = (part.get("text") for part in parts if part.get("type") == "text")
    return ToolError(TOOL_ERROR, "\n".join(text for text in texts if isinstance(text, str)))


def progress_text(done: float, total: float | None, message: str | None) -> str:
    """How far a call is, such as `3 of 10: reading`."""
    far = f"{done:g}" if total is None else f"{done:g} of {total:g}"
    return f"{far}: {message}" if message else far
