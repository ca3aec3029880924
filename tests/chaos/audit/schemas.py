"""The committed JSON Schemas of events and contracts, and a validator that is not the product's."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from referencing import Registry

FOLDER = Path(__file__).parents[3] / "contracts" / "schemas"
FAULTS_MAX = 3


def faults(kind: str, body: Any) -> list[str]:
    """What is wrong with an event by the committed schema of its kind."""
    path = FOLDER / "events" / f"{kind}.v1.json"
    if not path.exists():
        return [f"there is no event of the kind {kind!r}"]
    return _faults(_committed(path)[1], body)


def contract(name: str, version: int) -> Any | None:
    """The committed schema of a contract's published answers."""
    path = FOLDER / "contracts" / f"{name}.v{version}.json"
    return _committed(path)[0] if path.exists() else None


def contract_faults(name: str, version: int, answer: Any) -> list[str]:
    """What is wrong with an answer to a contract that is there."""
    return _faults(_committed(FOLDER / "contracts" / f"{name}.v{version}.json")[1], answer)


def inline_faults(schema: Any, answer: Any) -> list[str]:
    """What is wrong with an answer to a schema that a request carried."""
    return _faults(_validator(json.dumps(schema)), answer)


@cache
def _committed(path: Path) -> tuple[Any, Validator]:
    schema = json.loads(path.read_text())
    return schema, _validator(json.dumps(schema))


@cache
def _validator(schema_text: str) -> Validator:
    schema = json.loads(schema_text)
    made = validator_for(schema, default=Draft202012Validator)
    # An empty registry: nothing is fetched that a schema refers to.
    return made(schema, registry=Registry(), format_checker=made.FORMAT_CHECKER)


def _faults(validator: Validator, value: Any) -> list[str]:
    found = []
    for error in validator.iter_errors(value):
        found.append(f"{error.json_path}: {error.message[:200]}")
        if len(found) == FAULTS_MAX:
            break
    return found
