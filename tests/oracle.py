"""A second, independent JSON Schema validator, to check the first one against."""

from typing import Any

import jsonschema
from pydantic import JsonValue
from referencing import Registry


def is_valid(schema: Any, value: JsonValue) -> bool:
    """The verdict of the library `jsonschema`, which fetches nothing here."""
    validator = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
    checker = validator.FORMAT_CHECKER
    return bool(validator(schema, registry=Registry(), format_checker=checker).is_valid(value))
