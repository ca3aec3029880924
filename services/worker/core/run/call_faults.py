"""Faults in the arguments of a tool call: that call ends alone, and the others are made; pure."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from answerbus.failure import Problem
from answerbus.problems import kind_of
from services.worker.core.guard.nesting import nests_deeper
from services.worker.core.json_schema.keywords import JsonObject

TOOL_CALL = "tool_call"
_LEVELS_ABOVE = 3  # the answer, its list of actions, and the action
_IN_ARGS = re.compile(r"/actions/([0-9]{1,6})/args(/.*)?", re.DOTALL)

Faults = tuple[Problem, ...]


def faults_of_calls(
    value: JsonValue, faults: Faults
) -> tuple[JsonValue, Mapping[int, Faults], Faults]:
    """The answer with objects for arguments, the faults by call, and those of no call.

    Arguments that are no object are such a fault, too.
    """
    calls, of_calls, others = dict(_calls(value)), defaultdict[int, list[Problem]](list), []
    for fault in faults:
        found = _IN_ARGS.fullmatch(fault.path)
        if found and int(found[1]) in calls:
            of_calls[int(found[1])].append(fault.model_copy(update={"path": found[2] or ""}))
        else:
            others.append(fault)
    bare = {place for place, call in calls.items() if not isinstance(call["args"], dict)}
    for place in bare - of_calls.keys():
        found_instead = kind_of(calls[place]["args"])
        of_calls[place].append(Problem.of("", "type", "an object", found=found_instead))
    kept = {place: tuple(found) for place, found in of_calls.items()}
    return _without_args(value, bare), kept, tuple(others)


def without_deep(value: JsonValue, levels: int) -> tuple[JsonValue, Faults]:
    """The answer without arguments that nest too deeply, and a fault for each of these."""
    levels -= _LEVELS_ABOVE
    deep = {place for place, call in _calls(value) if nests_deeper(call["args"], levels)}
    faults = (
        Problem.of(f"/actions/{place}/args", "too_deep", f"at most {levels} levels of nesting")
        for place in sorted(deep)
    )
    return _without_args(value, deep), tuple(faults)


def _calls(value: JsonValue) -> Iterator[tuple[int, JsonObject]]:
    """By their places in an answer that may be of any form."""
    actions = value.get("actions") if isinstance(value, dict) else None
    for place, action in enumerate(actions if isinstance(actions, list) else ()):
        if isinstance(action, dict) and action.get("kind") == TOOL_CALL and "args" in action:
            yield place, action


def _without_args(value: JsonValue, places: set[int]) -> JsonValue:
    actions = value.get("actions") if isinstance(value, dict) else None
    if not places or not isinstance(value, dict) or not isinstance(actions, list):
        return value
    bare = [
        {**action, "args": {}} if place in places and isinstance(action, dict) else action
        for place, action in enumerate(actions)
    ]
    return {**value, "actions": bare}
