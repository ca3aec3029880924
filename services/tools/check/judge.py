"""Judges a server's answers by the rules; pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from answerbus.failure import Problem
from answerbus.reconcile import ToolReconciled
from answerbus.tool_result import ToolFailure, ToolOk, ToolResult
from answerbus.toolset_card import ToolCard, ToolsetCard
from services.tools.check.call_by_hand import HandCaller
from services.tools.check.cases import Case, Ruling
from services.worker.core.schema.validator import SchemaValidator, compile_schema

NO_ANSWER = "no answer came in time"
NO_CARD = (
    "there is no card: write one `toolset` record to the topic of cards, with the toolset as key"
)


def rulings(
    cases: Sequence[Case], last: Case, results: Mapping[str, Sequence[ToolResult]]
) -> Iterator[Ruling]:
    """One for each case, of the results by call id."""
    goes_on = bool(results.get(last.call_id or ""))
    for case in cases:
        if case.call_id is None:
            yield _skipped(case, goes_on=goes_on)
        else:
            yield _of_answers(case, results.get(case.call_id, ()), goes_on=goes_on)
    message = "it answers the last call" if goes_on else f"the last call: {NO_ANSWER}"
    yield Ruling(last.rule, "ok" if goes_on else "wrong", message)


def _skipped(case: Case, *, goes_on: bool) -> Ruling:
    if goes_on:
        return Ruling(case.rule, "ok", "later calls are answered")
    return Ruling(
        case.rule, "wrong", "later calls are not answered: skip records that you cannot read"
    )


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
        case "happened" | "not_happened":
            raise ValueError("a question is answered by a finding, and by no result")


def _of_nothing(case: Case, found: Sequence[ToolResult], *, goes_on: bool) -> Ruling:
    if found:
        return Ruling(
            case.rule, "wrong", f"it was answered: {_outcomes_text([one.outcome for one in found])}"
        )
    if not goes_on:
        return Ruling(case.rule, "skipped", "whether it was read is not known")
    return Ruling(case.rule, "ok", "it is not answered, and later calls are")


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


def found_rulings(
    cases: Sequence[Case], said: Mapping[str, Sequence[ToolReconciled]]
) -> Iterator[Ruling]:
    """One for each question, of the answers by call id."""
    for case in cases:
        findings = [one.finding for one in said.get(case.call_id or "", ())]
        kinds = [finding.kind for finding in findings]
        if not kinds:
            yield Ruling(case.rule, "wrong", NO_ANSWER)
        elif case.expected == "happened" and set(kinds) != {"happened"}:
            yield Ruling(case.rule, "wrong", f"it ran, but is reported as {kinds[0]}")
        elif case.expected == "not_happened" and "happened" in kinds:
            yield Ruling(case.rule, "wrong", "it is reported as happened")
        else:
            yield Ruling(case.rule, "ok", kinds[0])


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
    caller: HandCaller, partition: int, key: bytes | None, event: ToolResult | ToolReconciled
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
    """An answer that is not an event, in words."""
    return "; ".join(
        f"{problem.path or 'all of it'}: {problem.expected}" for problem in problems[:3]
    )


def card_rulings(card: ToolsetCard | None) -> Iterator[Ruling]:
    """One for the card, its schemas, its descriptions and its digests each."""
    if card is None:
        yield Ruling("card", "wrong", NO_CARD)
        return
    names = [tool.name for tool in card.tools]
    if not names:
        yield Ruling("card", "wrong", "the card names no tool")
    elif twice := sorted({name for name in names if names.count(name) > 1}):
        yield Ruling("card", "wrong", f"the card names {', '.join(twice)} more than once")
    else:
        yield Ruling("card", "ok", f"it offers {', '.join(names)}")
    yield _all("schemas", card, _schema_fault, "each can be compiled, and takes an object")
    yield _all("descriptions", card, _description_fault, "each tool says what it is for")
    yield _digests(card)


def _all(
    rule: str, card: ToolsetCard, fault_of: Callable[[ToolCard], str | None], well: str
) -> Ruling:
    faults = [f"{tool.name}: {fault}" for tool in card.tools if (fault := fault_of(tool))]
    return Ruling(rule, "wrong", "; ".join(faults)) if faults else Ruling(rule, "ok", well)


def _schema_fault(tool: ToolCard) -> str | None:
    compiled = compile_schema(tool.args_schema)
    if not isinstance(compiled, SchemaValidator):
        return "; ".join(problem.expected for problem in compiled.problems)
    if tool.args_schema.get("type") != "object":
        return 'arguments are an object: say "type": "object"'
    return None


def _description_fault(tool: ToolCard) -> str | None:
    return None if tool.description.strip() else "a model learns nothing of it: describe it"


def _digests(card: ToolsetCard) -> Ruling:
    claimed = [(tool.name, tool.digest, tool.computed_digest()) for tool in card.tools]
    claimed.append(("the card", card.digest, card.computed_digest()))
    wrong = [name for name, detail, found in claimed if detail not in (None, found)]
    if wrong:
        detail = f"that of {', '.join(wrong)} is not the digest of what is there: leave it out"
        return Ruling("digests", "wrong", detail)
    return Ruling("digests", "ok", f"{card.computed_digest()} (pin this one)")
