"""The committed JSON Schemas are those of the code."""

import json
import re
from functools import cache
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from answerbus.event import EVENT
from answerbus.registry import Registry
from answerbus.schema_export import documents, event_models

SCHEMAS = Path(__file__).parents[2] / "contracts/schemas"
TYPES = "types.v1.json"


@cache
def exported() -> dict[str, str]:
    return dict(documents())


def committed() -> dict[str, str]:
    return {
        path.relative_to(SCHEMAS).as_posix(): path.read_bytes().decode()
        for path in SCHEMAS.rglob("*")
        if path.is_file()
    }


def test_the_committed_schemas_are_regenerated_byte_for_byte() -> None:
    """If this fails, run `make schemas`, look at the difference and commit it."""
    assert exported() == committed()


def test_there_is_one_schema_for_each_event_and_two_for_each_contract() -> None:
    events = {f"events/{kind}.v1.json" for kind in event_models()}
    contracts = {
        f"contracts/{contract.name}.v{contract.version}{suffix}.json"
        for contract in Registry()
        for suffix in ("", ".asked")
    }

    assert set(exported()) == events | contracts | {TYPES}


def test_the_kinds_are_those_that_the_codec_tells_apart() -> None:
    assert EVENT.json_schema()["discriminator"]["mapping"].keys() == event_models().keys()


@pytest.mark.wide
@pytest.mark.parametrize("name", sorted(committed()))
def test_a_schema_is_one_and_names_itself(name: str) -> None:
    schema = json.loads(exported()[name])

    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"].startswith("urn:answerbus:")
    assert exported()[name].endswith("}\n")


def test_generators_of_types_get_each_type_once_and_named() -> None:
    types = json.loads(exported()[TYPES])["$defs"]
    written = json.dumps(types)

    public = [one for one in event_models().values() if ".private." not in one.__module__]
    assert {model.__name__.partition("[")[0] for model in public} <= types.keys()
    assert {"PlanProposalV1", "AgentActionV1", "AnswerbusEvent", "RequestWritten"} <= types.keys()
    assert {name: part["title"] for name, part in types.items()} == {name: name for name in types}
    assert written.count('"title": "') == len(types)
    assert '"default"' not in written
    assert set(re.findall(r'"#/\$defs/([^"]*)"', written)) <= types.keys()


@pytest.mark.parametrize(
    "path", sorted((SCHEMAS.parent / "examples/result").glob("*.json")), ids=str
)
def test_the_types_hold_for_the_examples(path: Path) -> None:
    schema = json.loads(exported()[TYPES])
    example = json.loads(path.read_text(encoding="utf-8"))

    chosen = {**schema, "anyOf": [{"$ref": "#/$defs/Result"}]}
    assert [*Draft202012Validator(chosen).iter_errors(example)] == []


def test_ids_are_unique() -> None:
    ids = [json.loads(text)["$id"] for text in exported().values()]

    assert len(set(ids)) == len(ids)


def test_a_written_event_requires_every_field_and_a_request_only_what_has_no_default() -> None:
    request = json.loads(exported()["events/request.v1.json"])
    result = json.loads(exported()["events/result.v1.json"])

    assert request["required"] == [
        "kind",
        "request_id",
        "workflow_id",
        "answer_schema",
        "context",
    ]
    assert request["$defs"]["TextRef"]["required"] == ["kind"]
    assert set(result["required"]) == set(result["properties"]) - {"body_digest", "run", "parent"}
    assert result["properties"]["answer"] == {}
