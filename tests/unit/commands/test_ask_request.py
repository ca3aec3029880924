"""From the command line to a request, without a broker."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from answerbus.budget import Budget
from answerbus.limits import REQUEST_BYTES_MAX
from answerbus.registry import Registry
from answerbus.request import (
    Context,
    ContractRef,
    Fact,
    InlineRef,
    Message,
    Policy,
    Request,
    SchemaRef,
    TextRef,
)
from services import cli
from services.commands.ask_request import AskArguments, request_of_arguments, request_of_file

FILES = {
    "manifest.json": b'{"lodash":"4.17.20"}',
    "log.txt": b"npm ERR! \xff",
    "schemas/search endpoint.json": b'{"type":"object"}',
    "list.json": b"[]",
    "typo.json": b'{"type":"objekt"}',
    "cut.json": b'{"type":',
}


def made(line: AskArguments) -> Request:
    return request_of_arguments(line, Registry(), FILES.__getitem__, "new-id")


def schema(**options: Any) -> SchemaRef:
    return made(AskArguments("Hi", **options)).answer_schema


def test_instructions_alone_ask_for_text_in_a_workflow_of_their_own() -> None:
    assert made(AskArguments("Say hello.")) == Request(
        request_id="new-id",
        workflow_id="new-id",
        answer_schema=TextRef(),
        context=Context(instructions="Say hello."),
    )


def test_what_is_to_be_done_with_invalid_answers_and_what_may_be_spent() -> None:
    line = AskArguments(
        "Hi", money="0.25", at_last="unvalidated", policy=("ordering=none", "on_refusal=retry")
    )

    request = made(line)

    assert request.budget == Budget(micro_usd=250_000)
    assert request.policy == Policy(
        at_last="unvalidated", ordering="none", on_refusal="retry", on_invalid="retry"
    )


def test_a_bare_schema_has_no_way_out() -> None:
    bare = schema(schema="schemas/search endpoint.json", bare=True)

    assert isinstance(bare, InlineRef)
    assert not bare.wrapped


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"bare": True}, "--bare goes with --schema"),
        (
            {"schema": "typo.json"},
            "typo.json: The schema is not a valid JSON Schema: /type: .* Correct the schema",
        ),
        ({"money": "a lot"}, "US dollars such as 0.25"),
        ({"at_last": "shrug"}, "--at-last takes dead_letter, "),
        ({"policy": ("order=none",)}, "--policy takes on_invalid, "),
        ({"policy": ("ordering=random",)}, "--policy ordering= takes workflow, none"),
    ],
)
def test_a_wrong_value_is_reported_with_the_allowed_ones(
    options: dict[str, Any], text: str
) -> None:
    with pytest.raises(typer.BadParameter, match=text):
        made(AskArguments("Hi", **options))


def test_every_option_has_its_place() -> None:
    line = AskArguments(
        "Fix it.",
        workflow="order-1",
        contract="plan_proposal.v1",
        facts=("manifest=@manifest.json", "log=@log.txt", "n=1", "t=a=b", "e="),
        messages=("it broke", "again"),
        profile="large",
        attempts=0,
        tokens=500,
        ttl=60,
        labels=("tenant=acme", "k=a=b"),
    )

    assert made(line) == Request(
        request_id="new-id",
        workflow_id="order-1",
        answer_schema=ContractRef(name="plan_proposal", version=1),
        context=Context(
            instructions="Fix it.",
            messages=(
                Message(role="user", content="it broke"),
                Message(role="user", content="again"),
            ),
            facts=(
                Fact(name="manifest", value={"lodash": "4.17.20"}),
                Fact(name="log", value="npm ERR! \N{REPLACEMENT CHARACTER}"),
                Fact(name="n", value=1),
                Fact(name="t", value="a=b"),
                Fact(name="e", value=""),
            ),
        ),
        profile="large",
        budget=Budget(attempts=0, tokens=500),
        ttl_s=60,
        labels={"tenant": "acme", "k": "a=b"},
    )


def test_a_contract_without_a_version_is_the_newest_that_is_known() -> None:
    assert schema(contract="plan_proposal") == ContractRef(name="plan_proposal", version=1)


def test_a_version_is_taken_at_its_word() -> None:
    """The workers may know more contracts than this command."""
    assert schema(contract="other.thing.v12") == ContractRef(name="other.thing", version=12)


def test_a_schema_is_named_after_its_file() -> None:
    assert schema(schema="schemas/search endpoint.json") == InlineRef(
        name="search_endpoint", json_schema={"type": "object"}
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"contract": "plan"}, "known: plan_proposal.v1"),
        ({"contract": "plan.v0"}, "no contract 'plan.v0'"),
        ({"contract": "a b.v1"}, "/name"),
        ({"contract": "plan_proposal", "schema": "list.json"}, "not both"),
        ({"schema": "list.json"}, "list.json holds no JSON Schema"),
        ({"schema": "cut.json"}, "cut.json holds no JSON: expected one JSON document: EOF"),
        ({"schema": "log.txt"}, "log.txt holds no JSON: expected text in UTF-8"),
        ({"facts": ("manifest",)}, "--fact takes name=value"),
        ({"facts": ("=1",)}, "--fact takes name=value"),
        ({"labels": ("tenant",)}, "--label takes name=value"),
        ({"ttl": 86_401}, "/ttl_s"),
        ({"attempts": -1}, "/attempts"),
        ({"workflow": "w" * 257}, "/workflow_id"),
        ({"profile": "a b"}, "/profile"),
    ],
    ids=str,
)
def test_what_cannot_be_asked_is_a_usage_error(options: dict[str, Any], text: str) -> None:
    with pytest.raises(typer.BadParameter) as raised:
        made(AskArguments("Hi", **options))

    assert text in str(raised.value)


BODY = {"workflow_id": "w", "answer_schema": {"kind": "text"}, "context": {"instructions": "Hi"}}


def test_a_file_may_leave_kind_and_id_out() -> None:
    assert request_of_file(json.dumps(BODY).encode(), "new-id") == Request(
        request_id="new-id",
        workflow_id="w",
        answer_schema=TextRef(),
        context=Context(instructions="Hi"),
    )


def test_an_id_in_a_file_is_kept() -> None:
    body = {"kind": "request", "request_id": "theirs", **BODY}

    assert request_of_file(json.dumps(body).encode(), "new-id").request_id == "theirs"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "not_json"),
        (b"[]", "not_an_object"),
        (b'{"kind":"request","kind":"request"}', "not_json"),
        (json.dumps({**BODY, "ttl_s": 0}).encode(), "/ttl_s"),
        (json.dumps({**BODY, "kind": "result"}).encode(), "/kind"),
        (json.dumps({**BODY, "budgte": {}}).encode(), "no such fields: /budgte"),
    ],
)
def test_a_file_that_is_no_request_is_a_usage_error(content: bytes, text: str) -> None:
    with pytest.raises(typer.BadParameter) as raised:
        request_of_file(content, "new-id")

    assert text in str(raised.value)


@pytest.mark.parametrize("how", [(), ("--follow", "--agent", "support"), ("--no-wait",)])
def test_a_request_that_no_worker_could_read_is_a_wrong_argument(
    how: tuple[str, ...], tmp_path: Path
) -> None:
    file = tmp_path / "log.txt"
    file.write_text("x" * REQUEST_BYTES_MAX)
    command = ["ask", "Why?", "--fact", f"log=@{file}", *how]
    done = CliRunner().invoke(cli.application(), command)

    assert done.exit_code == 2
    assert "Invalid value: The request has 524," in done.stderr
