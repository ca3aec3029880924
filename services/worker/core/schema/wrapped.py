"""Reads answers to wrapped inline schemas: an `output` to check, or an honest no."""

from pydantic import JsonValue, ValidationError
from pydantic_core import to_json

from answerbus import failure
from answerbus.answers.specialist import AskedSpecialist, noted
from answerbus.fail_fast import JsonReader
from answerbus.failure import Problem
from answerbus.problems import problems_of
from services.worker.core.schema.resolved import Accepted
from services.worker.core.schema.validator import SchemaValidator

_ASKED = JsonReader.of(AskedSpecialist)
OUTPUT_PLACE = "#/properties/output/anyOf/0"  # where `wrap` puts the caller's schema


def read_wrapped(validator: SchemaValidator, value: JsonValue) -> Accepted | failure.Invalid:
    """An answer is published with `success` true exactly if `output` is there and valid."""
    try:
        answer = _ASKED.read(to_json(value), strict=True)
    except ValidationError as error:
        return failure.Invalid(problems=problems_of(error, value))
    if answer.success:
        problems = _output_problems(validator, answer)
        if problems:
            return failure.Invalid(problems=problems)
    return Accepted(answer.published().model_dump(mode="json"))


def add_notes(answer: JsonValue, own: tuple[str, ...]) -> JsonValue:
    """A published answer with the worker's own notes behind the model's."""
    notes = answer.get("notes") if isinstance(answer, dict) else None
    if not isinstance(answer, dict) or not isinstance(notes, list):
        return answer
    return answer | {"notes": [*noted(tuple(map(str, notes)), own)]}


def _output_problems(validator: SchemaValidator, answer: AskedSpecialist) -> tuple[Problem, ...]:
    if "output" not in answer.model_fields_set:
        expected = "the output, as `success` is true"
        return (Problem.of("/output", "missing", expected, found="nothing"),)
    return tuple(problem.under("/output") for problem in validator.problems(answer.output))
