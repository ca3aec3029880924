"""A tool as an MCP server lists it, as a card; or why it is left out; pure."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue, TypeAdapter, ValidationError

from answerbus.limits import TOOL_DESCRIPTION_BYTES_MAX
from answerbus.tool_call import ToolName
from answerbus.tools.core.failing import ToolError
from answerbus.toolset_card import ApprovalRule, Delivery, ToolCard
from answerbus.wire import clip
from services.worker.core.guard.hostile import Refusal
from services.worker.core.schema.validator import SchemaValidator, compile_schema

_NAME: TypeAdapter[str] = TypeAdapter(ToolName)
TOOL_ERROR = "tool_error"  # the server's tool says itself that it failed
MCP_ERROR = "mcp_error"  # the server did not take the call, or answered with no result
INVALID_RESULT = "invalid_result"  # the tool ran, and what it gave breaks its own schema

Part = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class ListedTool:
    """What the server says of it; its hints are believed in one point alone, see `delivery_of`."""

    name: str
    description: str
    input_schema: dict[str, JsonValue]
    read_only: bool
    idempotent: bool
    output_schema: dict[str, JsonValue] | None = None
    needs_task: bool = False


@dataclass(frozen=True, slots=True)
class CheckedTool:
    """A tool that can be offered, and what judges its arguments, and its results.

    `unusable` says why its results are not checked, though it has a schema for them.
    """

    card: ToolCard
    validator: SchemaValidator
    results: SchemaValidator | None = None
    unusable: str | None = None


@dataclass(frozen=True, slots=True)
class Unfit:
    """A tool that is left out, and why."""

    name: str
    reason: str


def checked(
    listed: ListedTool, *, approval: ApprovalRule, timeout_s: float, repeatable: bool = False
) -> CheckedTool | Unfit:
    """All of it is untrusted: the guard of schemas comes before anything is compiled."""
    try:
        _NAME.validate_python(listed.name)
    except ValidationError:
        return Unfit(listed.name, "its name is none that a tool may have")
    compiled = compile_schema(listed.input_schema)
    if not isinstance(compiled, SchemaValidator):
        return Unfit(listed.name, f"the schema of its arguments {_why(compiled)}")
    if listed.input_schema.get("type") != "object":
        return Unfit(listed.name, "its arguments are not an object")
    if listed.needs_task:
        return Unfit(
            listed.name,
            "it runs alone as a task of the MCP of 2025-11-25, which a bridge does not follow",
        )
    card = ToolCard(
        name=listed.name,
        description=clip(inspect.cleandoc(listed.description), TOOL_DESCRIPTION_BYTES_MAX),
        args_schema=listed.input_schema,
        delivery=delivery_of(listed),
        approval=approval,
        timeout_s=timeout_s,
        repeatable=repeatable,
    )
    sealed = card.model_copy(update={"digest": card.computed_digest()})
    results = compile_schema(listed.output_schema) if listed.output_schema is not None else None
    if results is None or isinstance(results, SchemaValidator):
        return CheckedTool(sealed, compiled, results)
    return CheckedTool(sealed, compiled, unusable=_why(results))


def _why(unusable: Refusal) -> str:
    problems = "; ".join(problem.expected for problem in unusable.problems)
    return f"cannot be used: {problems}"


def delivery_of(listed: ListedTool) -> Delivery:
    """At least once only for what says of itself that to run it again does no harm."""
    harmless = listed.read_only and listed.idempotent
    return "at_least_once" if harmless else "at_most_once"


def value_of(structured: JsonValue, parts: Sequence[Part]) -> JsonValue:
    """The structured content if there is some, else one text as a text, else the parts.

    Links to resources, which the parts alone have, stay beside the structured content.
    """
    if structured is not None:
        links: list[JsonValue] = [
            dict(part) for part in parts if part.get("type") == "resource_link"
        ]
        return {"value": structured, "resources": links} if links else structured
    texts = [part.get("text") for part in parts if part.get("type") == "text"]
    if len(texts) == len(parts) == 1:
        return texts[0]
    return [dict(part) for part in parts]


def failure_of(parts: Sequence[Part]) -> ToolError:
    """A tool's error, as one text."""
    texts = (part.get("text") for part in parts if part.get("type") == "text")
    return ToolError(TOOL_ERROR, "\n".join(text for text in texts if isinstance(text, str)))


def progress_text(done: float, total: float | None, message: str | None) -> str:
    """How far a call is, such as `3 of 10: reading`."""
    far = f"{done:g}" if total is None else f"{done:g} of {total:g}"
    return f"{far}: {message}" if message else far
