"""The bus as an AsyncAPI document: as committed, valid by the official schema, true to events."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from answerbus.asyncapi import text
from answerbus.envelope import Undecodable, decode, decode_request, encode
from answerbus.schema_export import event_models
from answerbus.topics import EVERY_TOPIC

pytestmark = pytest.mark.wide

ROOT = Path(__file__).parents[2]
OFFICIAL = Path(__file__).parent / "asyncapi-specs/3.0.0.json"  # npm: @asyncapi/specs 6.11.1
EXAMPLES = sorted((ROOT / "contracts/examples").rglob("*.json"))
DOCUMENT = json.loads((ROOT / "contracts/asyncapi.json").read_text(encoding="utf-8"))


def resolved(reference: str) -> Any:
    found: Any = DOCUMENT
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    return found


def references(part: Any) -> list[str]:
    if isinstance(part, dict):
        own = [part["$ref"]] if isinstance(part.get("$ref"), str) else []
        return own + [found for inner in part.values() for found in references(inner)]
    return (
        [found for inner in part for found in references(inner)] if isinstance(part, list) else []
    )


def validator(schema: Any) -> Any:
    """A schema of the document, with the document's definitions beside it."""
    whole = {**schema, "components": DOCUMENT["components"]}
    return jsonschema_rs.Draft7Validator(whole, validate_formats=True)


def test_the_committed_document_is_made_again_byte_for_byte() -> None:
    """If this fails, run `make schemas`, look at the difference and commit it."""
    assert (ROOT / "contracts/asyncapi.json").read_text(encoding="utf-8") == text()


def test_the_official_schema_finds_nothing_wrong() -> None:
    official = jsonschema_rs.Draft7Validator(json.loads(OFFICIAL.read_text(encoding="utf-8")))

    assert [error.message for error in official.iter_errors(DOCUMENT)] == []


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        (("channels", "results", "bindings", "kafka"), {"partitions": "twelve"}),
        (("operations", "upstream-writes-requests"), {"action": "write"}),
        (("components", "messages", "result"), {"payload": {"type": "thing"}}),
        (("info",), {"licence": {}}),
    ],
)
def test_the_official_schema_would_find_it(path: tuple[str, ...], wrong: dict[str, Any]) -> None:
    official = jsonschema_rs.Draft7Validator(json.loads(OFFICIAL.read_text(encoding="utf-8")))
    broken = copy.deepcopy(DOCUMENT)
    part = broken
    for name in path:
        part = part[name]
    part.update(wrong)

    assert not official.is_valid(broken)


def test_every_reference_points_to_something() -> None:
    found = references(DOCUMENT)

    assert len(found) > 100
    assert all(resolved(reference) is not None for reference in found)


def test_every_topic_is_a_channel_and_every_party_has_its_operations() -> None:
    names = {topic: topic.name.partition(".")[0] for topic in EVERY_TOPIC}
    assert list(DOCUMENT["channels"]) == list(names.values())
    assert set(DOCUMENT["components"]["messages"]) == set(event_models())
    assert set(DOCUMENT["operations"]) == {
        f"{party}-{verb}-{name}"
        for topic, name in names.items()
        for verb, parties in (("writes", topic.writers), ("reads", topic.readers))
        for party in parties
    }


def test_the_document_has_every_source_of_our_programs() -> None:
    used = {
        found
        for folder in ("contracts/answerbus", "services")
        for file in (ROOT / folder).rglob("*.py")
        for found in re.findall(r'"(/answerbus/\w+)"', file.read_text(encoding="utf-8"))
    }
    for kind, message in DOCUMENT["components"]["messages"].items():
        if message["headers"]["required"]:  # of a record that clients write any source is taken
            assert set(message["headers"]["properties"]["ce_source"]["enum"]) == used, kind


def test_the_headers_of_other_clients_are_allowed() -> None:
    """As workers take them: a gateway that checks by the document dropped such a request."""
    other = {
        "ce_specversion": "1.0",
        "ce_type": "answerbus.request.v1",
        "ce_id": "7",
        "ce_source": "/acme/orders",
        "ce_dataschema": "https://acme.example/request.json",
        "content-type": "application/json; charset=utf-8",
    }
    headers = [(name, text.encode()) for name, text in other.items()]
    request = (ROOT / "contracts/examples/request/minimal.json").read_bytes()

    assert not isinstance(decode_request(request, headers), Undecodable)
    assert validator(DOCUMENT["components"]["messages"]["request"]["headers"]).is_valid(other)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_payload_and_headers_of_an_event_are_as_the_document_says(path: Path) -> None:
    event = decode(path.read_bytes())
    assert not isinstance(event, Undecodable)
    message = DOCUMENT["components"]["messages"][event.kind]
    record = encode(event, trace={"traceparent": "00-1-2-01"})
    headers = {name: content.decode() for name, content in record.headers}

    assert [
        f"{list(error.instance_path)}: {error.message}"
        for error in validator(message["payload"]).iter_errors(json.loads(record.value))
    ] == []
    assert validator(message["headers"]).is_valid(headers)
    assert headers.keys() <= message["headers"]["properties"].keys()
    assert message["name"] == headers["ce_type"]


def test_the_channel_of_the_calls_of_all_toolsets_has_their_name_as_a_parameter() -> None:
    channel = DOCUMENT["channels"]["tools"]

    assert channel["address"] == "answerbus.tools.{toolset}.v1"
    assert list(channel["parameters"]) == ["toolset"]


def test_a_wrong_payload_is_refused_by_the_document() -> None:
    path = ROOT / "contracts/examples/retry_request/invalid.json"
    body = json.loads(path.read_bytes())
    body["failure"]["problems"][0].pop("code")

    assert not validator(DOCUMENT["components"]["messages"]["retry_request"]["payload"]).is_valid(
        body
    )


def test_names_are_such_as_asyncapi_allows() -> None:
    named = re.compile(r"[A-Za-z0-9._\-]+")
    components = DOCUMENT["components"]

    for names in (*components.values(), DOCUMENT["channels"], DOCUMENT["operations"]):
        assert all(named.fullmatch(name) for name in names)
