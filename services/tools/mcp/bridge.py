"""One MCP server as a toolset, by the official SDK."""

import asyncio
import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import mcp_types as types
from mcp import Client
from pydantic import JsonValue
from pydantic_core import to_json, to_jsonable_python

from answerbus.failure import Problem
from answerbus.limits import REASON_BYTES_MAX, TOOLSET_TOOLS_MAX
from answerbus.masking import NO_MASK, Mask
from answerbus.tool_result import INVALID_ARGS
from answerbus.tools.core.asking import Ask
from answerbus.tools.core.failing import ToolError
from answerbus.tools.core.function_tool import ToolSignatureError
from answerbus.tools.core.tool import InvalidArgs, Tool, ValidArgs
from answerbus.tools.toolset import Toolset
from answerbus.toolset_card import ApprovalRule
from answerbus.wire import clip
from services.tools.mcp.bounds import LISTED_BYTES_MAX, LISTED_MAX
from services.tools.mcp.calls import call_tool, end_task
from services.tools.mcp.connected import Connected
from services.tools.mcp.mapping.listed import (
    INVALID_RESULT,
    CheckedTool,
    ListedTool,
    Unfit,
    checked,
    failure_of,
    value_of,
)
from services.worker.core.guard.effort import TooMuchWorkError, sparing
from services.worker.ports.costly_work import CostlyWork, EndedAtLimit

PAGES_MAX = 100  # of a list of tools, for a server whose list never ends
LIST_S = 60.0  # for all pages of a list of tools

_log = logging.getLogger(__name__)


async def toolset_of(
    client: Client,
    connected: Connected,
    name: str,
    work: CostlyWork,
    *,
    approval: ApprovalRule,
    timeout_s: float,
    repeatable: Collection[str] = (),
    known: dict[str, CheckedTool | Unfit] | None = None,
    mask: Mask = NO_MASK,
) -> Toolset:
    """What the server offers now, as far as it can be offered on the bus; the rest is logged.

    `connected` gives the client of the connection that is open when a tool is called. `repeatable`
    names tools that say so on their cards. `known` is what came of the tools at the last look, and
    then of those at this one: those that are as they were are not checked again.
    """
    toolset, all_listed = Toolset(name, written_by="mcp"), await _listed(client)
    known = {} if known is None else known
    before = known.copy()
    known.clear()
    for listed in all_listed:
        if len(toolset.tools) == TOOLSET_TOOLS_MAX:
            _log.warning("tools beyond the first %d are left out", TOOLSET_TOOLS_MAX)
            break
        as_listed = repr(listed)  # which distinguishes 1 from true
        found: CheckedTool | Unfit | EndedAtLimit | None = before.get(as_listed)
        if found is None:
            found = await work.run(
                name,
                checked,
                listed,
                approval=approval,
                timeout_s=timeout_s,
                repeatable=listed.name in repeatable,
            )
        if not isinstance(found, EndedAtLimit):
            known[as_listed] = found
        match found:
            case EndedAtLimit():
                _log.warning("the tool %.100r is left out: its schema is too costly", listed.name)
            case Unfit(name=unfit, reason=reason):
                _log.warning("the tool %.100r is left out: %s", unfit, reason)
            case CheckedTool(card=card, unusable=unusable):
                try:
                    toolset.add(tool_of(connected, found, work, mask))
                except ToolSignatureError as error:
                    _log.warning("the tool %r is left out: %s", card.name, error)
                    continue
                if unusable is not None:
                    message = "the results of %r are not checked: their schema %s"
                    _log.warning(message, card.name, unusable)
    return toolset


async def _listed(client: Client) -> Sequence[ListedTool]:
    """The tools of all pages; a server may make each page as large as a message may be."""
    found: list[ListedTool] = []
    cursor: str | None = None
    size = 0
    async with asyncio.timeout(LIST_S):
        for _ in range(PAGES_MAX):
            page = await client.list_tools(cursor=cursor)
            size += len(to_json(page.tools))
            if size > LISTED_BYTES_MAX:
                _log.warning(
                    "tools beyond the first %d are left out: they are too large", len(found)
                )
                break
            found += map(_of, page.tools)
            cursor = page.next_cursor
            if not cursor or len(found) > LISTED_MAX:
                break
    return found[:LISTED_MAX]


def _of(tool: types.Tool) -> ListedTool:
    hints = tool.annotations or types.ToolAnnotations()
    return ListedTool(
        tool.name,
        tool.description or "",
        to_jsonable_python(tool.input_schema),
        read_only=bool(hints.read_only_hint),
        idempotent=bool(hints.idempotent_hint),
        output_schema=to_jsonable_python(tool.output_schema),
        needs_task=tool.execution is not None and tool.execution.task_support == "required",
    )


@dataclass(frozen=True, slots=True)
class _Unchecked:
    """Arguments that take too long to be checked in the event loop."""

    args: dict[str, JsonValue]


def tool_of(
    connected: Connected, found: CheckedTool, work: CostlyWork, mask: Mask = NO_MASK
) -> Tool:
    """A tool that calls the server, once its arguments are looked at."""

    def read_args(args: dict[str, JsonValue]) -> ValidArgs | InvalidArgs:
        try:
            with sparing():
                problems = found.validator.problems(args)
        except TooMuchWorkError:
            return ValidArgs(_Unchecked(args))
        return InvalidArgs(problems) if problems else ValidArgs(args)

    async def call(args: Any, tool_call: Any) -> JsonValue | Ask:
        if isinstance(args, _Unchecked):
            problems = await work.run(found.card.name, found.validator.problems, args.args)
            if isinstance(problems, EndedAtLimit) or problems:
                raise ToolError(INVALID_ARGS, _words(problems, "the arguments"))
            args = args.args
        try:
            said = await call_tool(connected, found.card, args, tool_call)
            return said if isinstance(said, Ask) else await _value(said, found, work)
        except ToolError as error:
            error.message = mask(clip(error.message, REASON_BYTES_MAX))  # as much as is published
            raise

    async def cancel(state: str) -> None:
        await end_task(connected, state)

    return Tool(found.card, read_args, call, is_async=True, cancel=cancel)


def _words(problems: tuple[Problem, ...] | EndedAtLimit, what: str) -> str:
    if isinstance(problems, EndedAtLimit):
        return f"to check {what} would take too long: give something smaller or simpler"
    return "; ".join(f"{one.path or 'all of it'}: {one.expected}" for one in problems)


async def _value(result: types.CallToolResult, found: CheckedTool, work: CostlyWork) -> JsonValue:
    """What the tool gave, if it fits the schema that its server has announced for it."""
    parts = [
        part.model_dump(mode="json", by_alias=True, exclude_none=True) for part in result.content
    ]
    if result.is_error:
        raise failure_of(parts)
    structured = to_jsonable_python(result.structured_content)
    if found.results is not None:
        problems: tuple[Problem, ...] | EndedAtLimit
        try:
            with sparing():
                problems = found.results.problems(structured)
        except TooMuchWorkError:
            problems = await work.run(found.card.name, found.results.problems, structured)
        if isinstance(problems, EndedAtLimit) or problems:
            why = _words(problems, "the result")
            raise ToolError(INVALID_RESULT, f"the tool ran, and its result does not fit: {why}")
    return value_of(structured, parts)
