"""A second, independent JSON Schema validator, to check the first one against."""

from typing import Any

import jsonschema
from pydantic import JsonValue
from referencing import Registry

# Formats that `jsonschema` knows by itself. Other packages teach it more as soon as they are
# installed, and differ: rfc3339-validator knows no leap second.
FORMATS = jsonschema.FormatChecker(
    formats=("date", "email", "idn-email", "ipv4", "ipv6", "regex", "uuid")
)


def is_valid(schema: Any, value: JsonValue) -> bool:
    """The verdict of the library `jsonschema`, which fetches nothing here."""
    validator = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
    return bool(validator(schema, registry=Registry(), format_checker=FORMATS).is_valid(value))
