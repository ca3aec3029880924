"""A tool server's result as the end of a call; handles results that are too large."""

import json
from dataclasses import dataclass
from typing import assert_never

from pydantic import JsonValue

from answerbus import tool_result
from answerbus.call_outcome import CallError, CallOk, CallOutcome, InvalidArgs, ResultTooLarge
from answerbus.json_values import has_more_values
from answerbus.limits import (
    JSON_DEPTH_MAX,
    TOOL_EXCERPT_BYTES_MAX,
    TOOL_RESULT_BYTES_MAX,
    TOOL_RESULT_VALUES_MAX,
)
from answerbus.reconcile import Happened, ToolReconciled
from answerbus.tool_result import ToolFailure, ToolOk, ToolOutcome, ToolResult
from answerbus.wire import clip
from services.text.digest import text_digest
from services.text.nesting import nests_deeper

VALUE_DEPTH_MAX = JSON_DEPTH_MAX - 16  # of what ends a call: records and replays hold it deeper


@dataclass(frozen=True, slots=True)
class ToolCost:
    """The amount that the account is charged for a call; None where its tool has named no cost."""

    micro_usd: int | None
    notes: tuple[str, ...] = ()


def named_cost(report: object) -> int | None:
    """The cost that a tool server names; None where it names none."""
    match report:
        case ToolResult(micro_usd=cost) | ToolReconciled(finding=Happened(micro_usd=cost)):
            return cost
        case _:
            return None


def cost_of(named: int | None, left_micro_usd: int | None) -> ToolCost:
    """At most what the account has left, so that no budget is exceeded; a note says the rest."""
    if named is None or left_micro_usd is None or named <= left_micro_usd:
        return ToolCost(named)
    note = f"a tool cost {named:,} µ$: {left_micro_usd:,} µ$ were left in the budget, and charged"
    return ToolCost(left_micro_usd, (note,))


def outcome_of_tool(outcome: ToolOutcome) -> CallOutcome:
    """A result that is too large is shown as its size, its beginning and its digest."""
    match outcome:
        case ToolOk(value=value):
            text = json.dumps(value, ensure_ascii=False)
            data = text.encode(errors="replace")
            is_long = len(data) > TOOL_RESULT_BYTES_MAX
            is_large = is_long or has_more_values(data, TOOL_RESULT_VALUES_MAX)
            if is_large or nests_deeper(value, VALUE_DEPTH_MAX):
                return _too_large(text, len(data))
            return CallOk(value=value)
        case ToolFailure(code=tool_result.INVALID_ARGS, problems=problems) if problems:
            # Of any length, as its server wrote them. With another code the tool may have run.
            return InvalidArgs(problems=tuple(problem.clipped() for problem in problems))
        case ToolFailure():
            return CallError(code=outcome.code, message=outcome.message)
        case _:
            assert_never(outcome)


def too_large(value: JsonValue) -> ResultTooLarge:
    """A result by its size, its beginning and its digest."""
    text = json.dumps(value, ensure_ascii=False)
    return _too_large(text, len(text.encode(errors="replace")))


def _too_large(text: str, size: int) -> ResultTooLarge:
    return ResultTooLarge(
        bytes=size, excerpt=clip(text, TOOL_EXCERPT_BYTES_MAX), digest=text_digest(text)
    )
