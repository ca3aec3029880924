"""The form of a question to a person, from the JSON Schema of its answer, and its value; pure.

What a field cannot show is written as JSON; whether the value fits is the schema's matter alone.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from answerbus import json_text
from answerbus.failure import Problem
from answerbus.json_values import values_of
from answerbus.limits import TOOL_RESULT_VALUES_MAX

MEMBERS_MAX = 500  # a schema with more is answered as JSON
CHOICES_MAX = 100
_TOO_MANY = Problem.of("", "too_large", f"at most {TOOL_RESULT_VALUES_MAX:,} JSON values")
RAW = "value"  # the field of an answer as JSON

FieldKind = Literal["text", "integer", "number", "flag", "choice", "json"]
JsonObject = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class FormField:
    """One member of the answer; `name` is its name in the form, `member` in the answer."""

    name: str
    member: str
    kind: FieldKind
    is_required: bool
    about: str
    choices: tuple[str, ...] = ()


def fields_of(schema: JsonObject) -> tuple[FormField, ...]:
    """A field for each member; none where the answer is written as JSON."""
    members = schema.get("properties")
    if not isinstance(members, dict) or not 0 < len(members) <= MEMBERS_MAX:
        return ()
    listed = schema.get("required")
    required = {one for one in listed if isinstance(one, str)} if isinstance(listed, list) else ()
    return tuple(
        _field(
            f"m{number}",
            name,
            member if isinstance(member, dict) else {},
            is_required=name in required,
        )
        for number, (name, member) in enumerate(members.items())
    )


def _field(name: str, member: str, schema: JsonObject, *, is_required: bool) -> FormField:
    kind, choices = _kind(schema)
    about = schema.get("description")
    return FormField(
        name, member, kind, is_required, about if isinstance(about, str) else "", choices
    )


def _kind(schema: JsonObject) -> tuple[FieldKind, tuple[str, ...]]:
    choices = schema.get("enum")
    if isinstance(choices, list) and 0 < len(choices) <= CHOICES_MAX:
        return "choice", tuple(json.dumps(choice, ensure_ascii=False) for choice in choices)
    match schema.get("type"):
        case "string":
            return "text", ()
        case "integer":
            return "integer", ()
        case "number":
            return "number", ()
        case "boolean":
            return "flag", ("true", "false")
        case _:
            return "json", ()


Filled = tuple[JsonValue, tuple[Problem, ...]]
"""A value, and what of it could not be read."""


def value_of(fields: Sequence[FormField], form: Mapping[str, str]) -> Filled:
    """The answer as it was filled in; what is left empty and may be left out is left out."""
    if not fields:
        return _read(form.get(RAW, ""), "")
    answer: dict[str, JsonValue] = {}
    problems: list[Problem] = []
    left = TOOL_RESULT_VALUES_MAX  # of all fields: a form may have megabytes
    for field in fields:
        text, is_text = form.get(field.name, ""), field.kind == "text"
        if not text and not (field.is_required and is_text):
            continue  # the schema says so, where it is required
        left -= 0 if is_text else values_of(text.encode(errors="surrogatepass"))
        if left < 0:
            return None, (_TOO_MANY,)
        value, faults = (text, ()) if is_text else _read(text, f"/{field.member}")
        answer[field.member] = value
        problems += faults
    return answer, tuple(problems)


def read_args(text: str) -> tuple[dict[str, JsonValue] | None, tuple[Problem, ...]]:
    """The arguments of a call as a person changed them."""
    value, faults = _read(text, "")
    if isinstance(value, dict):
        return value, faults
    return None, faults or (Problem.of("", "object", "a JSON object"),)


def _read(text: str, path: str) -> Filled:
    match json_text.parse(text.encode(errors="surrogatepass")):
        case json_text.Parsed(value=value):
            return value, ()
        case json_text.NotJson():
            return None, (Problem.of(path, "json", 'a value as JSON, such as 3, true or "text"'),)
