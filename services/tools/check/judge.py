"""Judges a server's answers by the rules; pure."""

from collections.abc import Iterator, Mapping, Sequence

from answerbus.failure import Problem
from answerbus.tool_result import ToolFailure, ToolOk, ToolResult
from services.tools.check.call_by_hand import HandCaller
from services.tools.check.cases import Case
from services.tools.check.rule import Ruling

NO_ANSWER = "no answer came in time"


def rulings(
    cases: Sequence[Case], last: Case, results: Mapping[str, Sequence[ToolResult]]
) -> Iterator[Ruling]:
    """One for each case, of the results by call id."""
    goes_on = bool(results.get(last.call_id or ""))
    for case in cases:
        if case.call_id is None:
            yield _passed_by(case, goes_on=goes_on)
        else:
            yield _of_answers(case, results.get(case.call_id, ()), goes_on=goes_on)
    message = "it answers what came last" if goes_on else f"of the last call {NO_ANSWER}"
    yield Ruling(last.rule, "ok" if goes_on else "wrong", message)


def _passed_by(case: Case, *, goes_on: bool) -> Ruling:
    if goes_on:
        return Ruling(case.rule, "ok", "the calls behind it are answered")
    return Ruling(case.rule, "wrong", "nothing behind it is answered: pass by what you cannot read")


def _of_answers(case: Case, found: Sequence[ToolResult], *, goes_on: bool) -> Ruling:
    outcomes = [one.outcome for one in found]
    match case.expected:
        case "nothing":
            return _of_nothing(case, found, goes_on=goes_on)
        case "ok":
            fine = [outcome for outcome in outcomes if isinstance(outcome, ToolOk)]
            if fine:
                return Ruling(case.rule, "ok", "with a value")
            return Ruling(case.rule, "wrong", _outcomes_text(outcomes))
        case "error":
            return _of_error(case, outcomes)
        case "same":
            return _of_same(case, outcomes)


def _of_nothing(case: Case, found: Sequence[ToolResult], *, goes_on: bool) -> Ruling:
    if found:
        return Ruling(
            case.rule, "wrong", f"it was answered: {_outcomes_text([one.outcome for one in found])}"
        )
    if not goes_on:
        return Ruling(case.rule, "skipped", "whether it was read is not known")
    return Ruling(case.rule, "ok", "it is not answered, and the calls behind it are")


def _of_error(case: Case, outcomes: Sequence[ToolOk | ToolFailure]) -> Ruling:
    failures = [outcome for outcome in outcomes if isinstance(outcome, ToolFailure)]
    if len(failures) < len(outcomes) or not failures:
        return Ruling(case.rule, "wrong", f"expected an error: {_outcomes_text(outcomes)}")
    if case.code and failures[0].code != case.code:
        message = f"an error, but not of the code {case.code}: {_outcomes_text(outcomes)}"
        return Ruling(case.rule, "wrong", message)
    return Ruling(case.rule, "ok", f"the error {failures[0].code}")


def _of_same(case: Case, outcomes: Sequence[ToolOk | ToolFailure]) -> Ruling:
    """Once is enough; twice is fine where both say the same."""
    if not outcomes:
        return Ruling(case.rule, "wrong", NO_ANSWER)
    if any(outcome != outcomes[0] for outcome in outcomes):
        message = "the answers differ: remember answers by `call_id`, or make the tool idempotent"
        return Ruling(case.rule, "wrong", message)
    if len(outcomes) == 1:
        return Ruling(case.rule, "ok", "answered once")
    return Ruling(case.rule, "ok", f"answered {len(outcomes)} times, always the same")


def _outcomes_text(outcomes: Sequence[ToolOk | ToolFailure]) -> str:
    if not outcomes:
        return NO_ANSWER
    first = outcomes[0]
    return "a value" if isinstance(first, ToolOk) else f"{first.code}: {first.message}"


def form_ruling(faults: Sequence[str]) -> Ruling:
    """Whether all that was written to the results topic for these calls could be read."""
    if faults:
        return Ruling("answers have their form and their place", "wrong", "; ".join(faults[:3]))
    return Ruling("answers have their form and their place", "ok", "key, partition, token, fields")


def fault_of(
    caller: HandCaller, partition: int, key: bytes | None, event: ToolResult
) -> str | None:
    """What is wrong with the place of an answer to one of our calls."""
    if event.token != caller.token:
        return f"the token of {event.call_id} is not the call's own"
    if event.workflow_id != caller.name:
        return f"the workflow of {event.call_id} is not the call's own"
    if partition != caller.partition:
        return f"{event.call_id} is answered in partition {partition}, not {caller.partition}"
    if key != caller.name.encode():
        return f"the record of {event.call_id} has not the key that the call names"
    return None


def unreadable(problems: Sequence[Problem]) -> str:
    """An answer that is no event, in words."""
    return "; ".join(
        f"{problem.path or 'all of it'}: {problem.expected}" for problem in problems[:3]
    )
