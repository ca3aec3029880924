"""The one check of an answer: size, JSON, wire shape, authority; nothing is ever repaired."""

from dataclasses import dataclass, replace
from typing import assert_never

from pydantic import JsonValue
from pydantic_core import to_json

from answerbus import failure, json_text
from answerbus.failure import Problem
from answerbus.json_values import has_more_values, signs_of_values
from answerbus.limits import (
    ANSWER_BYTES_MAX,
    ANSWER_VALUES_MAX,
    EXCERPT_BYTES_MAX,
    JSON_DEPTH_MAX,
)
from answerbus.wire import clip
from services.text.nesting import nests_deeper
from services.worker.core.guard.effort import spend
from services.worker.core.schema.resolved import (
    Accepted,
    AcceptedStep,
    DecodedAnswer,
    ResolvedSchema,
    WireSchema,
)

# Events carry an answer some levels down, and readers accept JSON_DEPTH_MAX levels in all. Half of
# them leave room on the stack for what walks an answer recursively.
ANSWER_DEPTH_MAX = JSON_DEPTH_MAX // 2
READ_VALUE_NS = 600  # of reading an answer and writing it again, for each name and value of it

_TOO_DEEP = failure.Invalid(
    problems=(Problem.of("", "too_deep", f"at most {ANSWER_DEPTH_MAX} levels of nesting"),)
)
_TOO_MANY_VALUES = failure.Invalid(
    problems=(Problem.of("", "too_many_values", f"at most {ANSWER_VALUES_MAX:,} JSON values"),)
)


@dataclass(frozen=True, slots=True)
class TooLarge:
    """The answer has more bytes than a result may carry."""

    bytes: int


Checked = Accepted | AcceptedStep | failure.Malformed | failure.Invalid | TooLarge


def check(content: str, resolved: ResolvedSchema, wire: WireSchema) -> Checked:
    """What a provider's content came to, as an answer to `resolved` that was put as `wire`."""
    raw = content.encode(errors="surrogatepass")
    if len(raw) > ANSWER_BYTES_MAX:
        return TooLarge(len(raw))
    if resolved.schema is None:
        return _text(content, resolved)
    if has_more_values(raw, ANSWER_VALUES_MAX):
        return _TOO_MANY_VALUES
    signs = signs_of_values(raw)
    spend(min(signs, ANSWER_VALUES_MAX) * READ_VALUE_NS)
    parsed = json_text.parse_counted(raw)
    if isinstance(parsed, json_text.NotJson):
        if resolved.malformed_is_text and (text := check_as_text(content, resolved)):
            return text
        # Which piece of an unreadable text is for auditors alone is not known.
        excerpt = "" if resolved.hides_some else parsed.excerpt
        return failure.Malformed(position=parsed.position, excerpt=excerpt)
    signs += raw.count(b"\\u")  # within text that is JSON, one may be escaped
    shallow = _shallow(parsed.value, resolved) if signs > ANSWER_DEPTH_MAX else (parsed.value, ())
    if shallow is None:
        return _TOO_DEEP
    value, faults = shallow
    checked = _checked(wire.read(value), resolved, faults, signs)
    if isinstance(checked, failure.Invalid) and wire.read_otherwise is not None:
        otherwise = _checked(wire.read_otherwise(value), resolved, faults, signs)
        return otherwise if isinstance(otherwise, Accepted | AcceptedStep) else checked
    return checked


def _shallow(
    value: JsonValue, resolved: ResolvedSchema
) -> tuple[JsonValue, tuple[Problem, ...]] | None:
    """A value without what nests too deeply, as far as a part of it can fail alone."""
    if not nests_deeper(value, ANSWER_DEPTH_MAX):
        return value, ()
    kept, faults = resolved.without_deep(value, ANSWER_DEPTH_MAX)
    return None if nests_deeper(kept, ANSWER_DEPTH_MAX) else (kept, faults)


def _checked(
    decoded: DecodedAnswer,
    resolved: ResolvedSchema,
    faults: tuple[Problem, ...],
    signs: int,
) -> Checked:
    """Checks one reading of an answer, with `faults` that were found before.

    It has at most as many values, and levels, as there are `signs` of them.
    """
    faults = (*faults, *decoded.faults)
    answer = decoded.partly if decoded.faults and resolved.read_partly else decoded.answer
    if isinstance(answer, failure.Invalid):
        return _unquoted(answer) if resolved.hides_some else answer
    # What came as JSON text is an answer's inside only now.
    if signs > ANSWER_VALUES_MAX and has_more_values(to_json(answer), ANSWER_VALUES_MAX):
        return _TOO_MANY_VALUES
    shallow = _shallow(answer, resolved) if signs > ANSWER_DEPTH_MAX else (answer, ())
    if shallow is None:
        return _TOO_DEEP
    known = decoded.read if shallow[0] is answer else None
    answer, faults = shallow[0], (*faults, *shallow[1])
    read = resolved.read_partly(answer, faults) if resolved.read_partly and faults else known
    if isinstance(read, failure.Invalid) and resolved.hides_some and faults:
        read = _unquoted(read)
    checked = _publishable(read or resolved.read(answer))
    if decoded.remarks and isinstance(checked, Accepted):
        return replace(checked, notes=checked.notes + decoded.remarks)
    return checked


def _unquoted(failed: failure.Invalid) -> failure.Invalid:
    """The same faults, and nothing of what was written, as with a text that cannot be read."""
    bare = (problem.model_copy(update={"excerpt": ""}) for problem in failed.problems)
    return failure.Invalid(problems=tuple(bare))


def check_as_text(content: str, resolved: ResolvedSchema) -> Checked | None:
    """What a provider's content came to as the contract's text variant; None where it has none."""
    if resolved.from_text is None:
        return None
    return _not_utf8(content) or _publishable(resolved.from_text(content))


def _text(content: str, resolved: ResolvedSchema) -> Checked:
    return _not_utf8(content) or _publishable(resolved.read(content))


def _not_utf8(content: str) -> failure.Malformed | None:
    """Half of a surrogate pair has no place in UTF-8, so no event could carry it."""
    try:
        content.encode()
    except UnicodeEncodeError as error:
        before = content[: error.start].encode()
        return failure.Malformed(position=len(before), excerpt=clip(content, EXCERPT_BYTES_MAX))
    return None


def _publishable(read: Accepted | AcceptedStep | failure.Invalid) -> Checked:
    """Reading may write an answer longer than it came, so that its size is looked at again."""
    match read:
        case failure.Invalid():
            return read
        case AcceptedStep():
            calls = [(call.tool, call.args) for call in read.calls]
            text = to_json((read.said, read.thoughts, calls))
        case Accepted():
            text = to_json(read.answer)
        case _:
            assert_never(read)
    if len(text) > ANSWER_BYTES_MAX:
        return TooLarge(len(text))
    return _TOO_MANY_VALUES if has_more_values(text, ANSWER_VALUES_MAX) else read
