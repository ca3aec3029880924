"""The reconciler of a tool as something to run, and its finding; pure."""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from answerbus.reconcile import Finding, NotKnown
from answerbus.tool_result import ToolFailure, ToolOk, counted_cost
from answerbus.tools.core.tool import Tool

Reconciler = Callable[[str, Any], Finding | Awaitable[Finding]]
"""From the id and the arguments of a call to whether it had its effect; has no effect itself."""

_FINDING: TypeAdapter[Finding] = TypeAdapter(Finding)


def as_tool(tool: Tool) -> Tool | None:
    """A tool that asks the reconciler of another about one of its calls."""
    reconcile = tool.reconcile
    if reconcile is None:
        return None

    def call(args: object, about: Any) -> object:
        return reconcile(about.id, args)

    return replace(tool, call=call, is_async=inspect.iscoroutinefunction(reconcile))


def finding_of(outcome: ToolOk | ToolFailure) -> Finding:
    """A reconciler that raises, hangs or returns something else has found nothing out."""
    if isinstance(outcome, ToolFailure):
        return NotKnown()
    found = outcome.value
    if isinstance(found, dict) and (cost := counted_cost(found.get("micro_usd"))) is not None:
        found = {**found, "micro_usd": cost}
    try:
        return _FINDING.validate_python(found)
    except ValidationError:
        return NotKnown()
