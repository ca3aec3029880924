"""A4: a call that succeeded in the step before is answered from its result, and not made again."""

from collections.abc import Iterator, Mapping

from tests.chaos.audit.history import Event, History, Json, Violation
from tests.chaos.audit.run_records import CHILD_TOOLS, RunRecords

CallKey = tuple[str, str]


def check(history: History) -> Iterator[Violation]:
    """By steps and ends alone: what ended with its step was not made, see tool_calls.py."""
    runs = RunRecords(history)
    for steps in runs.steps.values():
        by_number = {step.body["n"]: step for step in steps}
        for step in steps:
            before = by_number.get(step.body["n"] - 1)
            if before is not None:
                yield from _of_step(runs, step, dict(_answered(runs, before)))


def _of_step(
    runs: RunRecords, step: Event, answered: Mapping[CallKey, tuple[str, Json]]
) -> Iterator[Violation]:
    for call in step.body["calls"]:
        found = answered.get((call["tool"], call["args_digest"]))
        if found and call["state"] != "ended":
            yield Violation("A4", call["call_id"], f"made, and {found[0]} has its result")
        end = _end_of(runs, call["call_id"])
        if end is None or end.get("same_as") is None:
            continue
        name, outcome = found or ("none", {})
        if end["same_as"] != name or end["value"] != outcome["value"] or call["state"] != "ended":
            text = f"ended with the result of {end['same_as']}, and {name} is the equal call"
            yield Violation("A4", call["call_id"], text)


def _answered(runs: RunRecords, step: Event) -> Iterator[tuple[CallKey, tuple[str, Json]]]:
    """The calls of a step that answer equal ones, each with its id and end."""
    cards = runs.cards(step.body["request_id"])
    for call in step.body["calls"]:
        end = _end_of(runs, call["call_id"])
        if end is None or end["kind"] != "ok":
            continue
        if call["tool"] in CHILD_TOOLS:
            is_repeatable = isinstance(end["value"], dict) and end["value"].get("success") is False
        else:
            is_repeatable = cards.get(call["tool"], {}).get("repeatable", False)
        if not is_repeatable:
            yield (call["tool"], _digest_of(runs, call)), (call["call_id"], end)


def _digest_of(runs: RunRecords, call: Json) -> str:
    """Of the arguments that the tool was given: a person may have changed them."""
    edited = runs.ended[call["call_id"]][0].body.get("edited")
    return str((edited or call)["args_digest"])


def _end_of(runs: RunRecords, call_id: str) -> Json | None:
    ends = runs.ended.get(call_id)
    return ends[0].body["outcome"] if ends else None
