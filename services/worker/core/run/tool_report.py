"""A tool server's report whose optional fields are not as they should be is read without them.

A cost that is too high counts as the highest, and a fraction is rounded up: the call would be free
without it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from answerbus.envelope import Undecodable, decode, decode_body
from answerbus.event import Event
from answerbus.explain import problems_text
from answerbus.failure import Problem
from answerbus.limits import NOTES_MAX, REASON_BYTES_MAX, TOOL_COST_MICRO_USD_MAX
from answerbus.tool_result import (
    INPUT_REQUIRED,
    ToolFailure,
    ToolProgress,
    ToolResult,
    counted_cost,
)
from answerbus.wire import clip

OPTIONAL = {
    "tool_result": ("/duration_ms", "/server", "/notes", "/micro_usd"),
    "tool_progress": ("/note", "/n"),
    "tool_reconciled": ("/question", "/server", "/notes", "/finding/micro_usd"),
}
OPTIONAL_OF_FAILURE = ("/outcome/message", "/outcome/retryable", "/outcome/problems")
_OF_QUESTION = ("/asks", "/state")
_HAS_NOTES = ("tool_result", "tool_reconciled")
_COSTS = ("/micro_usd", "/finding/micro_usd")
_SEVERAL = 3  # of the problems of a field only some are listed, and then those of the next


@dataclass(frozen=True, slots=True)
class InvalidQuestion:
    """A question to a person that breaks a rule of its record; it ends its call.

    `state` is what the server keeps for the call, where it is valid.
    """

    call_id: str
    workflow_id: str
    token: str
    state: str | None
    why: str

    def end(self) -> ToolResult:
        """The result of a call outside of a run."""
        return ToolResult(
            call_id=self.call_id,
            workflow_id=self.workflow_id,
            token=self.token,
            outcome=ToolFailure(code=INPUT_REQUIRED, message=self.why),
        )


def read_report(value: bytes | None) -> Event | Undecodable | InvalidQuestion:
    """The event, if it is one without what is wrong; a note says so to readers of the outcome.

    The tool has done its work, and may not do it again: a wrong duration is no reason to wait.
    """
    found = decode(value)
    for _ in range(_SEVERAL):
        if not isinstance(found, Undecodable) or found.body is None:
            return found
        fields = _left_out(found.problems, found.body)
        if not fields:
            return _unasked(found.problems, found.body) or found
        found = decode_body(_without(found.body, fields))
    return found


def _unasked(problems: Iterable[Problem], body: Mapping[str, JsonValue]) -> InvalidQuestion | None:
    """The question to a person that is wrong; None where anything else is, too.

    The server sends nothing after it: if it were dropped, the call would time out without a reason.
    """
    if body.get("kind") != "tool_progress" or body.get("asks") is None:
        return None
    wrong = tuple(it for it in problems if not _is_in(it, OPTIONAL["tool_progress"]))
    if not all(_is_in(it, _OF_QUESTION) for it in wrong):
        return None
    why = f"its server asks for input that is not valid: {problems_text(wrong)}"
    fields = ["call_id", "workflow_id", "token"]
    if not any(_is_in(it, ("/state",)) for it in wrong):
        fields.append("state")
    kept = decode_body({"kind": "tool_progress", **{name: body.get(name) for name in fields}})
    if not isinstance(kept, ToolProgress):
        return None
    why = clip(why, REASON_BYTES_MAX)
    return InvalidQuestion(kept.call_id, kept.workflow_id, kept.token, kept.state, why)


def _is_in(problem: Problem, fields: Iterable[str]) -> bool:
    return any(f"{problem.path}/".startswith(f"{field}/") for field in fields)


def _left_out(problems: Iterable[Problem], body: Mapping[str, JsonValue]) -> frozenset[str]:
    """The optional fields that are wrong; none where another one is wrong, too."""
    optional = OPTIONAL.get(str(body.get("kind")), ())
    if body.get("kind") == "tool_result" and _kind_of_outcome(body) == "error":
        optional += OPTIONAL_OF_FAILURE
    fields = set()
    for problem in problems:
        field = next((it for it in optional if _is_in(problem, (it,))), None)
        if field is None:
            return frozenset()
        fields.add(field)
    return frozenset(fields)


def _kind_of_outcome(body: Mapping[str, JsonValue]) -> JsonValue:
    outcome = body.get("outcome")
    return outcome.get("kind") if isinstance(outcome, dict) else None


def _without(body: Mapping[str, JsonValue], fields: frozenset[str]) -> dict[str, JsonValue]:
    kept = _kept(body, "", fields)
    for part in ("outcome", "finding"):
        inner = kept.get(part)
        if isinstance(inner, dict):
            kept[part] = _kept(inner, f"/{part}", fields)
    notes = kept.get("notes", [])
    if kept["kind"] in _HAS_NOTES and isinstance(notes, list):
        kept["notes"] = [*notes, *_notes(body, fields)][: max(len(notes), NOTES_MAX)]
    return kept


def _kept(
    members: Mapping[str, JsonValue], place: str, fields: frozenset[str]
) -> dict[str, JsonValue]:
    """The members but those fields; of a cost what counts."""
    kept: dict[str, JsonValue] = {}
    for name, value in members.items():
        field = f"{place}/{name}"
        if field not in fields:
            kept[name] = value
        elif cost := _counted(field, value):
            kept[name] = cost
    return kept


def _notes(body: Mapping[str, JsonValue], fields: frozenset[str]) -> Iterator[str]:
    finding = body.get("finding")
    values = {"/micro_usd": body.get("micro_usd")}
    if isinstance(finding, dict):
        values["/finding/micro_usd"] = finding.get("micro_usd")
    costs = {field: _counted(field, values.get(field)) for field in fields & values.keys()}
    wrong = sorted(field for field in fields if not costs.get(field))
    if left_out := ", ".join(f"`{field}`" for field in wrong):
        yield f"left out of a tool's result, since they were wrong: {left_out}"
    for cost in filter(None, costs.values()):
        most = f"no whole number up to {TOOL_COST_MICRO_USD_MAX:,} µ$"
        yield f"a tool named a cost that is {most}: it counts as {cost:,} µ$"


def _counted(field: str, value: JsonValue) -> int | None:
    return counted_cost(value) if field in _COSTS else None
