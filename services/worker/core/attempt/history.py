"""The record of earlier attempts, for the next one and for readers of the events."""

from pydantic import JsonValue

from answerbus import failure, json_text
from answerbus.json_values import has_more_values, signs_of_values
from answerbus.limits import PRIOR_ANSWER_BYTES_MAX, PRIOR_ENTRIES_MAX, PRIOR_VALUES_MAX
from answerbus.request import Prior
from services.text.nesting import nests_deeper
from services.worker.core.attempt.check import ANSWER_DEPTH_MAX
from services.worker.core.attempt.plan import Plan

PRIOR_BYTES_MAX = 48 * 1024  # of all earlier attempts in one event; the newest are kept


def with_failure(
    prior: tuple[Prior, ...],
    attempt: int,
    failed: failure.Failure,
    answer: JsonValue,
    answer_digest: str | None = None,
) -> tuple[Prior, ...]:
    """The earlier attempts and this one, with how often its answer has come.

    A request may come with attempts of those before it: numbers grow over all of them.
    """
    equal = (e.times for e in prior if answer_digest and e.answer_digest == answer_digest)
    entry = Prior(
        attempt=max(attempt, prior[-1].attempt + 1 if prior else 0),
        failure=failed,
        answer=answer,
        answer_digest=answer_digest,
        times=1 + max(equal, default=0),
    )
    return bounded_prior((*prior, entry))


def bounded_prior(prior: tuple[Prior, ...]) -> tuple[Prior, ...]:
    """The newest attempts that fit, each with its answer if there is room for that too.

    The next prompt repeats the one before as far as it can, and for that needs its answer.
    """
    kept: list[Prior] = []
    room, values = PRIOR_BYTES_MAX, PRIOR_VALUES_MAX
    for entry in reversed(prior[-PRIOR_ENTRIES_MAX:]):
        shown, text = entry, entry.model_dump_json().encode()
        is_large = len(text) > min(room, PRIOR_ANSWER_BYTES_MAX) or has_more_values(text, values)
        if entry.answer is not None and is_large:
            shown = entry.model_copy(update={"answer": None})
            text = shown.model_dump_json().encode()
        if len(text) > room and kept:
            break
        if len(text) > room:  # as its client wrote it
            shown = _with_clipped_problems(shown)
        room, values = room - len(text), max(0, values - signs_of_values(text))
        kept.append(shown)
    return tuple(reversed(kept))


def _with_clipped_problems(entry: Prior) -> Prior:
    if not isinstance(entry.failure, failure.Invalid):
        return entry
    problems = tuple(problem.clipped() for problem in entry.failure.problems)
    return entry.model_copy(update={"failure": failure.Invalid(problems=problems)})


def kept_answer(plan: Plan, content: str) -> JsonValue:
    """The answer as the next attempt may see it: without audit-only fields, and not too large.

    It is kept as it was written where it cannot be read, unless some of that may be for auditors
    alone.
    """
    raw = content.encode(errors="replace")  # half a surrogate fits no event
    if len(raw) > PRIOR_ANSWER_BYTES_MAX:
        return None
    if (found := readable(plan, content)) is not None:
        return found.value
    if plan.schema.hides_some:
        return None
    if isinstance(json_text.parse(raw), json_text.NotJson):
        return raw.decode()
    written = _written(content)
    return None if written is None else written.value


def readable(plan: Plan, content: str) -> json_text.Parsed | None:
    """The answer without audit-only fields, if it is JSON of the shape that was asked for."""
    parsed = _written(content)
    if parsed is None:
        return None
    decoded = plan.wire.decode(parsed.value)
    if isinstance(decoded, failure.Invalid) or nests_deeper(decoded, ANSWER_DEPTH_MAX):
        return None
    return json_text.Parsed(plan.schema.shown(without(decoded, plan.schema.audit_only)))


def has_form(answer: JsonValue, failed: failure.Failure | None) -> bool:
    """Whether an answer is wrong in its parts and not as a whole, as a mere text or number is."""
    match answer:
        case dict():
            return True
        case list() if isinstance(failed, failure.Invalid):
            return all(problem.path for problem in failed.problems)
        case _:
            return False


def _written(content: str) -> json_text.Parsed | None:
    """The JSON that a model wrote, if it is any that an event can carry."""
    parsed = json_text.parse(content.encode(errors="replace"))  # half a surrogate fits no event
    if not isinstance(parsed, json_text.Parsed) or nests_deeper(parsed.value, ANSWER_DEPTH_MAX):
        return None  # no reader takes an event that nests deeper
    return parsed


def without(answer: JsonValue, audit_only: frozenset[str]) -> JsonValue:
    """An answer without its audit-only fields, wherever an invalid one has put them."""
    match answer:
        case dict():
            kept = {name: value for name, value in answer.items() if name not in audit_only}
            return {name: without(value, audit_only) for name, value in kept.items()}
        case list():
            return [without(item, audit_only) for item in answer]
        case _:
            return answer
