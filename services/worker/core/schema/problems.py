"""A validator's errors as Problems for a model: expectations, never the input."""

import json
from collections.abc import Iterable, Iterator, Sequence
from string import Formatter

from jsonschema_rs import ValidationError, ValidationErrorKind
from pydantic import JsonValue

from answerbus.failure import Problem
from answerbus.problems import kind_of, pointer
from services.worker.core.json_schema.keywords import AnySchema

# The fields named here come from the schema. Fields that hold the input are left out on purpose.
_EXPECTED = {
    "additionalItems": "at most {limit} items",
    "additionalProperties": "no members beyond those that the schema names",
    "anyOf": "a value that satisfies one of the alternatives",
    "const": "exactly {expected_value}",
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
    "required": "the member {property}",
    "type": "a value of type {types}",
    "unevaluatedItems": "no items beyond those that the schema describes",
    "unevaluatedProperties": "no members beyond those that the schema names",
    "uniqueItems": "items that all differ",
}

_FOUND = {
    "required": "an object without it",
    "additionalProperties": "other members",
    "unevaluatedProperties": "other members",
    "propertyNames": "a member of another name",
    "uniqueItems": "items that are the same",
    "contains": "a list without enough of them",
}
_CLOSING = {"additionalProperties", "unevaluatedProperties"}  # a `false` that closes an object


def explain(
    errors: Iterable[ValidationError], limit: int, schema: AnySchema
) -> tuple[Problem, ...]:
    """The first `limit` findings; of a union, those of the alternative that was probably meant.

    `schema` is what was validated against, for words that a finding does not carry itself.
    """
    found: dict[Problem, None] = {}
    for error in errors:
        found.update(dict.fromkeys(_problems(error, schema)))
        if len(found) >= limit:
            break
    return tuple(found)[:limit]


def _problems(error: ValidationError, schema: AnySchema) -> Iterator[Problem]:
    match error.kind:
        case ValidationErrorKind.AnyOf(context) | ValidationErrorKind.OneOfNotValid(context):
            yield from _union_problems(error, context, schema)
        case _:
            yield _problem(error, schema)


def _union_problems(
    union: ValidationError, context: Sequence[Sequence[ValidationError]], schema: AnySchema
) -> Iterator[Problem]:
    depth = len(union.instance_path)
    right_kind = [found for found in context if not any(_wrong_type(e, depth) for e in found)]
    meant = [found for found in right_kind if not any(_wrong_tag(e, depth) for e in found)]
    if meant:
        for error in min(meant, key=len):
            yield from _problems(error, schema)
    elif right_kind:
        tags = [next(e for e in found if _wrong_tag(e, depth)) for found in right_kind]
        expected = "one of " + ", ".join(_shown(_tag(error)) for error in tags)
        yield Problem.of(pointer(tags[0].instance_path), "tag", expected, found="another tag")
    else:
        yield _problem(union, schema)


def _wrong_type(error: ValidationError, depth: int) -> bool:
    return len(error.instance_path) == depth and error.kind.name in {"type", "falseSchema"}


def _wrong_tag(error: ValidationError, depth: int) -> bool:
    """Whether a member that distinguishes alternatives names another one."""
    return len(error.instance_path) <= depth + 1 and _tag(error) is not None


def _tag(error: ValidationError) -> object | None:
    match error.kind:
        case ValidationErrorKind.Constant(expected) | ValidationErrorKind.Enum([expected]):
            return expected
        case _:
            return None


def _problem(error: ValidationError, schema: AnySchema) -> Problem:
    code = error.kind.name
    found = _FOUND.get(code, kind_of(error.instance))
    return Problem.of(pointer(error.instance_path), code, _expected(error, schema), found=found)


def _expected(error: ValidationError, schema: AnySchema) -> str:
    match error.kind:
        case ValidationErrorKind.Pattern(pattern):
            return f"a text that matches the regular expression {pattern}"
        case ValidationErrorKind.PropertyNames(inner):
            return f"members that are each named by {_expected(inner, schema)}"
        case ValidationErrorKind.Contains():
            return _enough(_at(schema, error.schema_path[:-1]))
        case ValidationErrorKind.FalseSchema() if error.schema_path[-1] in _CLOSING:
            return _EXPECTED[str(error.schema_path[-1])]
        case kind:
            template = _EXPECTED.get(kind.name, "a value that satisfies `{keyword}`")
            named = {field for _, field, _, _ in Formatter().parse(template) if field}
            fields = {field: _shown(getattr(kind, field)) for field in named - {"keyword"}}
            return template.format(keyword=kind.name, **fields)


def _enough(schema: JsonValue) -> str:
    """How many items of an array must satisfy which schema."""
    if not isinstance(schema, dict) or "contains" not in schema:
        return "as many fitting items as `contains` asks for"
    least, most = schema.get("minContains", 1), schema.get("maxContains")
    many = f"at least {_shown(least)}" + ("" if most is None else f" and at most {_shown(most)}")
    return f"{many} of the items to satisfy {_shown(schema['contains'])}"


def _at(schema: AnySchema, path: Sequence[str | int]) -> JsonValue:
    """The value at `path` of the schema, None if there is none."""
    place: JsonValue = schema
    for step in path:
        match place:
            case dict() if isinstance(step, str):
                place = place.get(step)
            case list() if isinstance(step, int) and step < len(place):
                place = place[step]
            case _:
                return None
    return place


def _shown(value: object) -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(json.dumps(item, ensure_ascii=False) for item in value)
    return json.dumps(value, ensure_ascii=False, default=str)
