"""Cassettes in the tests of services: what is asked, tools and types are held against them."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from answerbus.cassette import (
    CASSETTE_BYTES_MAX,
    CASSETTE_VALUES_MAX,
    Cassette,
    CassetteFault,
    RecordedRequest,
    read_cassette,
)
from answerbus.cause import BudgetExhausted
from answerbus.client.testing import (
    CassetteError,
    FakeClient,
    accepted_answer,
    answered,
    compare_tools,
    load_cassette,
)
from answerbus.dead_letter import DeadLetter
from answerbus.event import AnyOutcome
from answerbus.failure import Invalid, Problem
from answerbus.outcome import Result
from answerbus.private.runs import AgentDefinition, ToolDefinition
from answerbus.redaction import redacted
from answerbus.request import Prior
from answerbus.tools import Toolset


class Route(BaseModel):
    team: str


async def recorded(outcome: Any, question: str = "Which team?", *rules: str) -> Cassette:
    """One request of a service, as it was recorded."""
    fake = FakeClient()
    fake.prepare(outcome)
    async with fake:
        await fake.ask(question, response_model=Route, request_id="r-1", workflow_id="w-1")
        found: AnyOutcome = await fake.outcome_of("r-1", "w-1")
    one = RecordedRequest(request=fake.requests[0], outcome=found)
    return Cassette(workflow_id="w-1", redactions=rules, requests=(one,))


async def died() -> Cassette:
    """A request whose two answers lacked the team."""
    cassette = await recorded(answered({"team": "web"}))
    request = cassette.requests[0].request
    failed = Invalid(problems=(Problem.of("/team", "missing", "the team"),))
    prior = tuple(Prior(attempt=n, failure=failed, answer={"name": "web"}) for n in (1, 2))
    letter = DeadLetter(
        dead_letter_id="r-1.dead-letter",
        request_id="r-1",
        workflow_id="w-1",
        cause=BudgetExhausted(which="attempts"),
        request=request,
        raw=None,
        origin={"topic": "t", "partition": 0, "offset": 0, "timestamp": "2026-01-01T00:00:00Z"},  # type: ignore[arg-type]
        prior=prior,
        account=None,
        at="2026-01-01T00:00:00Z",  # type: ignore[arg-type]
    )
    one = RecordedRequest(request=request, outcome=letter)
    return Cassette(workflow_id="w-1", requests=(one,))


async def ask(fake: FakeClient, question: str = "Which team?") -> Any:
    async with fake:
        return await fake.ask(question, response_model=Route, workflow_id="w-9")


async def test_a_request_that_was_recorded_ends_as_it_did() -> None:
    fake = FakeClient()
    fake.play(await recorded(answered({"team": "web"})))

    outcome = await ask(fake)

    assert isinstance(outcome, Result)
    assert outcome.answer == Route(team="web")
    assert outcome.request_id == fake.requests[0].request_id


async def test_a_changed_prompt_fails_with_the_nearest_place_and_a_diff() -> None:
    fake = FakeClient()
    fake.play(await recorded(answered({"team": "web"})))

    with pytest.raises(CassetteError) as raised:
        await ask(fake, "Which floor?")

    assert "recorded as r-1: at /context/" in str(raised.value)
    assert "- Which team?" in str(raised.value)
    assert "+ Which floor?" in str(raised.value)


async def test_each_recorded_request_ends_one() -> None:
    fake = FakeClient()
    fake.play(await recorded(answered({"team": "web"})))
    await ask(fake)

    with pytest.raises(CassetteError, match="Nothing more was recorded"):
        await ask(fake)


async def test_a_dead_letter_passes_once_the_type_takes_an_answer() -> None:
    class Named(BaseModel):
        name: str

    cassette = await died()

    with pytest.raises(CassetteError, match=r"attempt 1 does not satisfy .*; attempt 2 "):
        accepted_answer(cassette, request_id="r-1")
    with pytest.raises(CassetteError, match="attempt 1 breaks /team"):
        accepted_answer(cassette, request_id="r-1", response_model=Route)
    assert accepted_answer(cassette, request_id="r-1", response_model=Named) == Named(name="web")


async def test_a_changed_tool_fails_with_the_nearest_place_and_a_diff() -> None:
    was, now = Toolset("orders"), Toolset("orders")

    @was.tool
    def get(order_id: str) -> str:
        """The state of an order."""
        return order_id

    @now.tool(name="get")
    def get_by_number(order_id: int) -> str:
        """The state of an order."""
        return str(order_id)

    tool = ToolDefinition(toolset="orders", card=was.card().tools[0])
    agent = AgentDefinition(name="support", version=1, instructions="Help.", tools=(tool,))
    (one,) = (await recorded(answered({"team": "web"}))).requests
    one = one.model_copy(update={"definition": agent})
    cassette = Cassette(workflow_id="w-1", requests=(one,))

    compare_tools(cassette, was.card())
    with pytest.raises(CassetteError) as raised:
        compare_tools(cassette, now.card())
    assert "orders.get is not as r-1 was given it: at /args_schema/properties/order_id" in str(
        raised.value
    )
    with pytest.raises(CassetteError, match=r"orders\.get is not"):
        compare_tools(cassette, Toolset("orders").card())


BAD = [
    (b"{", "not_json"),
    (b'{"kind": "cassette", "version": 2}', "other_version"),
    (b'{"kind": "cassette", "version": "1.0"}', "other_version"),
    (b'{"kind": "cassette", "version": 1, "workflow_id": "w"}', "not_a_cassette"),
    (b"[]", "not_a_cassette"),
    (b"[" + b"0," * CASSETTE_VALUES_MAX + b"0]", "not_json"),
    (b" " * (CASSETTE_BYTES_MAX + 1), "too_large"),
    (b"[" * 1000, "not_json"),
    (b'{"version": 1e400}', "not_json"),
]


@pytest.mark.parametrize(("text", "kind"), BAD, ids=range(len(BAD)))
def test_what_is_no_cassette_is_named(text: bytes, kind: str, tmp_path: Path) -> None:
    found = read_cassette(text)
    (tmp_path / "c.json").write_bytes(text)

    assert isinstance(found, CassetteFault)
    assert found.kind == kind
    with pytest.raises(CassetteError, match="is not a playable cassette"):
        load_cassette(tmp_path / "c.json")


async def test_a_redacted_cassette_fits_what_is_asked_in_full() -> None:
    fake = FakeClient()
    cassette = await recorded(answered({"team": "web"}), "Which team has ***?", "emails")
    fake.play(cassette)

    assert isinstance(await ask(fake, "Which team has ann@example.org?"), Result)


async def test_rules_are_for_contexts_as_they_are_for_a_recorder() -> None:
    """The type that is asked for has a member of that name, too."""
    fake = FakeClient()
    fake.play(await recorded(answered({"team": "web"}), "Which team?", "member:team"))

    assert isinstance(await ask(fake), Result)


def test_a_fact_is_a_member_of_its_name_and_addresses_have_any_letters() -> None:
    facts: list[Any] = [{"name": "address", "value": {"street": "Am Hof 1"}, "trust": "untrusted"}]
    assert redacted(facts, ["member:address"]) == [{**facts[0], "value": {"street": "***"}}]
    assert redacted({"name": ["address"], "value": "x"}, ["member:address"]) == {
        "name": ["address"],
        "value": "x",
    }

    written = "jörg.müller@example.org, o'brien@münchen.example."
    assert redacted(written, ["emails"]) == "***, ***."


async def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    cassette = await recorded(answered({"team": "web"}))
    path = tmp_path / "c.json"
    path.write_text(json.dumps(json.loads(cassette.model_dump_json())))

    assert load_cassette(path) == cassette
