"""What a validator found wrong, as Problems for a model: expectations, never the input."""

import json
from collections.abc import Iterable, Iterator, Sequence
from string import Formatter

from jsonschema_rs import ValidationError, ValidationErrorKind

from answerbus.failure import Problem
from answerbus.problems import pointer

# The fields named here come from the schema. Fields that hold the input are left out on purpose.
_EXPECTED = {
    "additionalItems": "at most {limit} items",
    "additionalProperties": "no members beyond those that the schema names",
    "anyOf": "a value that satisfies one of the alternatives",
    "const": "exactly {expected_value}",
    "contains": "as many fitting items as `contains` asks for",
    "enum": "one of {options}",
    "exclusiveMaximum": "a number below {limit}",
    "exclusiveMinimum": "a number above {limit}",
    "falseSchema": "nothing here",
    "format": "a text in the format {format}",
    "maximum": "a number of at most {limit}",
    "maxItems": "at most {limit} items",
    "maxLength": "at most {limit} characters",
    "maxProperties": "at most {limit} members",
    "minimum": "a number of at least {limit}",
    "minItems": "at least {limit} items",
    "minLength": "at least {limit} characters",
    "minProperties": "at least {limit} members",
    "multipleOf": "a multiple of {multiple_of}",
    "not": "a value that does not satisfy {schema}",
    "oneOf": "a value that satisfies exactly one of the alternatives",
    "pattern": "a text that matches {pattern}",
    "required": "the member {property}",
    "type": "a value of type {types}",
    "unevaluatedItems": "no items beyond those that the schema describes",
    "unevaluatedProperties": "no members beyond those that the schema names",
    "uniqueItems": "items that all differ",
}


def explain(errors: Iterable[ValidationError], limit: int) -> tuple[Problem, ...]:
    """The first `limit` findings; of a union, those of the alternative that was probably meant."""
    found: dict[Problem, None] = {}
    for error in errors:
        found.update(dict.fromkeys(_problems(error)))
        if len(found) >= limit:
            break
    return tuple(found)[:limit]


def _problems(error: ValidationError) -> Iterator[Problem]:
    match error.kind:
        case ValidationErrorKind.AnyOf(context) | ValidationErrorKind.OneOfNotValid(context):
            yield from _union_problems(error, context)
        case _:
            yield _problem(error)


def _union_problems(
    union: ValidationError, context: Sequence[Sequence[ValidationError]]
) -> Iterator[Problem]:
    depth = len(union.instance_path)
    right_kind = [found for found in context if not any(_wrong_type(e, depth) for e in found)]
    meant = [found for found in right_kind if not any(_wrong_tag(e, depth) for e in found)]
    if meant:
        for error in min(meant, key=len):
            yield from _problems(error)
    elif right_kind:
        tags = [next(e for e in found if _wrong_tag(e, depth)) for found in right_kind]
        expected = "one of " + ", ".join(_shown(_tag(error)) for error in tags)
        yield Problem.of(pointer(tags[0].instance_path), "tag", expected)
    else:
        yield _problem(union)


def _wrong_type(error: ValidationError, depth: int) -> bool:
    return len(error.instance_path) == depth and error.kind.name in {"type", "falseSchema"}


def _wrong_tag(error: ValidationError, depth: int) -> bool:
    """Whether this says that a member which tells alternatives apart names another one."""
    return len(error.instance_path) <= depth + 1 and _tag(error) is not None


def _tag(error: ValidationError) -> object | None:
    match error.kind:
        case ValidationErrorKind.Constant(expected) | ValidationErrorKind.Enum([expected]):
            return expected
        case _:
            return None


def _problem(error: ValidationError) -> Problem:
    name = error.kind.name
    template = _EXPECTED.get(name, "a value that satisfies `{keyword}`")
    named = {field for _, field, _, _ in Formatter().parse(template) if field}
    fields = {field: _shown(getattr(error.kind, field)) for field in named - {"keyword"}}
    return Problem.of(pointer(error.instance_path), name, template.format(keyword=name, **fields))


def _shown(value: object) -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(json.dumps(item, ensure_ascii=False) for item in value)
    return json.dumps(value, ensure_ascii=False, default=str)
