"""What the independent validator `jsonschema` says of raw and of published answers."""

import json
from collections.abc import Sequence
from typing import Any

from pydantic import JsonValue

from answerbus import failure
from answerbus.attempt import Attempt
from answerbus.dead_letter import DeadLetter
from answerbus.event import AnyOutcome
from answerbus.outcome import Refusal, Result
from answerbus.registry import Registry
from answerbus.request import InlineRef, TextRef
from services.worker.core.schema.resolved import ResolvedSchema, Unusable, WireSchema
from services.worker.dialects.schema_cache import SchemaCache
from tests.model_survey.questions import Question
from tests.model_survey.recorder import Recorded
from tests.model_survey.rows import Ended, Row, Try
from tests.model_survey.sample import DIALECT
from tests.oracle import is_valid

_SCHEMAS = SchemaCache(Registry())


def judged(
    question: Question,
    terminal: AnyOutcome,
    attempts: Sequence[Attempt],
    answers: dict[str, Recorded],
) -> Row:
    """The row of a question that has ended."""
    return Row(
        id=question.id,
        part=question.part,
        group=question.group,
        outcome=terminal.kind,
        cause=terminal.cause.kind if isinstance(terminal, DeadLetter) else None,
        published_valid=_published(question, terminal),
        is_enforced=not _compiled(question)[1].notes,
        tries=tuple(_try(question, attempt, answers) for attempt in attempts),
    )


def _published(question: Question, terminal: AnyOutcome) -> bool | None:
    if not isinstance(terminal, Result | Refusal):
        return None
    ref = question.asked
    if isinstance(ref, TextRef):
        return isinstance(terminal.answer, str)
    if isinstance(ref, InlineRef):
        return _inline(ref, terminal.answer)
    contract = Registry().find(ref)
    return contract is not None and is_valid(contract.schema(), terminal.answer)


def _try(question: Question, attempt: Attempt, answers: dict[str, Recorded]) -> Try:
    recorded = answers.get(attempt.answer_digest or "")
    fits, valid = (None, None) if recorded is None else _raw(question, recorded)
    return Try(
        number=attempt.attempt,
        ended=_ended(attempt, recorded),
        fits_wire=fits,
        is_valid=valid,
        accepted=attempt.outcome in ("result", "refusal"),
        failure=attempt.failure.kind if attempt.failure else None,
        problem=_first_code(attempt.failure),
    )


def _first_code(found: failure.Failure | None) -> str | None:
    return found.problems[0].code if isinstance(found, failure.Invalid) else None


def _ended(attempt: Attempt, recorded: Recorded | None) -> Ended:
    if recorded is not None and recorded.stop_reason == "stop":
        return "by itself"
    return "cut" if isinstance(attempt.failure, failure.Truncated) else "no answer"


def _raw(question: Question, recorded: Recorded) -> tuple[bool, bool]:
    """Under the wire schema that the server was told; and, decoded, under what was asked for."""
    try:
        value: JsonValue = json.loads(recorded.content)
    except ValueError:
        return False, False
    fits = is_valid(recorded.wire_schema, value)
    asked, wire = _compiled(question)
    decoded = wire.decode(value)
    if isinstance(decoded, failure.Invalid):
        return fits, False
    if isinstance(question.asked, InlineRef):
        return fits, _inline(question.asked, decoded)
    return fits, is_valid(asked.schema, decoded)


def _compiled(question: Question) -> tuple[ResolvedSchema, WireSchema]:
    compiled = _SCHEMAS.compiled(question.asked, DIALECT)
    if isinstance(compiled, Unusable):
        raise TypeError(f"{question.id} was answered although {compiled.cause}")
    return compiled


def _inline(ref: InlineRef, answer: Any) -> bool:
    """The caller's schema; wrapped, it binds `output` where `success` is true."""
    if not ref.wrapped:
        return is_valid(ref.json_schema, answer)
    if not isinstance(answer, dict) or not isinstance(answer.get("success"), bool):
        return False
    if answer["success"]:
        return "output" in answer and is_valid(ref.json_schema, answer["output"])
    return bool((answer.get("failure_reason") or "").strip())
