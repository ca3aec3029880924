"""Pydantic's errors as Problems: paths, codes and expectations, never the input itself."""

from collections.abc import Sequence
from typing import Any

from pydantic import JsonValue, ValidationError
from pydantic_core import ErrorDetails

from answerbus.failure import Problem
from answerbus.limits import PROBLEMS_MAX

_QUOTING = {
    # These messages of pydantic repeat the input, which may be hostile or secret.
    "union_tag_invalid": "{discriminator} to be one of {expected_tags}",
    "union_tag_not_found": "a member {discriminator}, which says of what kind it is",
    "string_unicode": "a text that UTF-8 can carry",
}
# Of lists and objects, which pydantic calls tuples and dictionaries, and of texts.
_BY_NUMBER = {
    "too_long": "{max_length} or fewer {counted}",
    "too_short": "{min_length} or more {counted}",
}
_UNNAMED = {"discriminator": "the tag", "expected_tags": "those that are known"}  # by a validator


_FOUND = {
    "extra_forbidden": "a member that is not in the schema",
    "union_tag_not_found": "an object without its tag",
    "union_tag_invalid": "an object with another tag",
}


_SAID = {"value_error": "Value error, ", "assertion_error": "Assertion failed, "}


def pointer(parts: Sequence[str | int]) -> str:
    """A JSON pointer (RFC 6901)."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


FAULTS_MAX = 5_000  # listed to find the first 20; pydantic cannot list these alone


def problems_of(error: ValidationError, document: JsonValue) -> tuple[Problem, ...]:
    """The first 20 findings about `document`, placed where a reader of it would look."""
    if error.error_count() > FAULTS_MAX:
        found_text = f"{error.error_count():,} faults"
        return (Problem.of("", "too_many_faults", f"at most {FAULTS_MAX:,}", found=found_text),)
    found = error.errors(include_url=False, include_input=False)
    if all(details["type"] != "too_short" for details in found):
        return tuple(_problem(details, document) for details in found[:PROBLEMS_MAX])
    inside = {details["loc"][:end] for details in found for end in range(len(details["loc"]))}
    # A list whose items are wrong is also too short for pydantic, which would mislead a model.
    kept = [at for at in found if at["type"] != "too_short" or at["loc"] not in inside]
    return tuple(_problem(details, document) for details in kept[:PROBLEMS_MAX])


def _problem(details: ErrorDetails, document: JsonValue) -> Problem:
    context = details.get("ctx", {})
    templates = _BY_NUMBER if "field_type" in context else _QUOTING
    missing = details["type"] == "missing"
    place, value = place_of(details["loc"], document, missing=missing)
    expected = details["msg"]
    if template := templates.get(details["type"]):
        # Not of a list that a variable of the environment has as JSON text, which is longer.
        is_text = isinstance(value, str) and context.get("actual_length") == len(value)
        counted = "characters" if is_text else "items"
        expected = template.format_map({**_UNNAMED, "counted": counted, **context})
    expected = expected.removeprefix(_SAID.get(details["type"], ""))
    found = "nothing" if missing else _FOUND.get(details["type"], kind_of(value))
    return Problem.of(pointer(place), details["type"], expected, found=found)


def kind_of(value: object) -> str:
    """The kind of a JSON value, without its content."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return f"a text of {len(value)} characters"
        case list():
            return f"a list of {len(value)}"
        case dict():
            return "an object"
        case _:
            return "a number"


def place_of(
    location: tuple[str | int, ...], document: JsonValue, *, missing: bool = False
) -> tuple[list[str | int], Any]:
    """Pydantic's location without the tags of unions, which are in no document, and its value."""
    here: JsonValue = document
    place: list[str | int] = []
    may_be_tag = True  # the first part in an object may be, also where a member has that name
    for number, part in enumerate(location, start=1):
        if may_be_tag and isinstance(here, dict) and here.get("kind") == part:
            may_be_tag = False
            continue
        match here, part:
            case dict(), str() if part in here:
                here = here[part]
            case list(), int() if part < len(here):
                here = here[part]
            case _ if not (missing and number == len(location)):
                continue
            case _:
                pass
        may_be_tag = True
        place.append(part)
    return place, here
