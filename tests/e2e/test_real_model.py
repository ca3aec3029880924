"""A real model behind a real worker on a real Kafka answers what a client asks, by the schema."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from answerbus.answers.plan_proposal import PlanProposal
from answerbus.budget import Budget
from answerbus.client import Client
from answerbus.outcome import Refusal, Result
from answerbus.request import Context, ContractRef, Fact, InlineRef, Message, Request
from infra.local_model import LocalModel
from infra.stack.__main__ import FIRST_REQUEST, FIRST_SCHEMA
from tests.integration.bus import ROOT, Bus
from tests.integration.command_line import ended, start
from tests.integration.evidence import assert_sound, collect

pytestmark = [pytest.mark.kafka, pytest.mark.real_llm]

LIMIT_S = 180.0
SCHEMAS = ROOT / "contracts" / "schemas" / "contracts"
MANIFEST = Fact(
    name="package.json",
    value={"dependencies": {"lodash": "4.17.20", "express": "4.19.2"}},
    trust="trusted",
)
AUDIT = "lodash <=4.17.20, severity high, command injection; patched in 4.17.21"
EXAMPLE = (
    Message(role="user", content="left-pad 1.3.0 is vulnerable; patched in 1.3.1", trust="trusted"),
    Message(
        role="assistant",
        content=json.dumps(
            {
                "kind": "dep_bump",
                "manifest_path": "package.json",
                "package": "left-pad",
                "target_version": "1.3.1",
                "rationale": "1.3.1 is patched.",
            }
        ),
        trust="trusted",
    ),
    Message(role="user", content=AUDIT),
)
FINDING: dict[str, Any] = {
    "type": "object",
    "properties": {
        "package": {"type": "string", "maxLength": 40},
        "severity": {"enum": ["low", "moderate", "high", "critical"]},
        "direct": {"type": "boolean"},
    },
    "required": ["package", "severity", "direct"],
    "additionalProperties": False,
}


@pytest.fixture
async def client(bus: Bus, model: LocalModel) -> AsyncIterator[Client]:
    """A client of a bus whose worker asks the local model, and what holds of all they did."""
    profile = {"provider": "openai", "model": model.name, "base_url": model.base_url}
    table = "".join(f'{name} = "{value}"\n' for name, value in profile.items())
    worker = bus.start_worker(
        bus.settings(f"[profiles.default]\n{table}max_output_tokens = 400\ntemperature = 0\n")
    )
    async with Client(bus.bootstrap, topic_prefix=bus.prefix) as client:
        yield client
    assert worker.terminate() == 0
    assert_sound(await collect(bus))


def schema(path: Path) -> Draft202012Validator:
    return Draft202012Validator(json.loads(path.read_text()))


def assert_answered(outcome: Result[Any] | Refusal, model: LocalModel) -> None:
    """By this model, in its own structured output, for tokens that it counted."""
    assert outcome.model.model == model.name
    assert outcome.model.dialect == "openai"
    assert outcome.usage.input_tokens
    assert outcome.usage.output_tokens
    assert outcome.account.spent.attempts == outcome.attempt


async def test_plan_proposal(client: Client, model: LocalModel) -> None:
    outcome = await client.ask(
        "Propose one dep_bump that fixes the audit finding. Be as brief as in the example.",
        workflow_id="audit-1",
        response_model=PlanProposal,
        facts=[MANIFEST],
        messages=EXAMPLE,
        budget=Budget(attempts=5),
        timeout_s=LIMIT_S,
    )

    assert isinstance(outcome, Result | Refusal), outcome
    assert_answered(outcome, model)
    published = outcome.model_dump(mode="json")["answer"]
    schema(SCHEMAS / "plan_proposal.v1.json").validate(published)
    if isinstance(outcome, Result):  # which of the two is the model's own choice
        assert published["kind"] == outcome.answer.kind
    else:
        assert (outcome.by, published["kind"]) == ("model", "refuse")


async def test_the_first_request_that_is_suggested_has_the_right_answer(
    bus: Bus, client: Client, model: LocalModel
) -> None:
    """What `make up` tells a newcomer to type."""
    del client  # its worker answers
    asked = ("ask", FIRST_REQUEST, "--schema", str(ROOT / FIRST_SCHEMA), "--bare")
    process = await start(bus.bootstrap, bus.prefix, *asked, "--timeout", str(LIMIT_S))
    done = await ended(process, limit_s=LIMIT_S)

    assert done.code == 0, done.err
    assert json.loads(done.out) == {
        "items": [{"product": "coffee", "quantity": 2}, {"product": "muffin", "quantity": 1}],
        "to_go": True,
    }
    assert f"inline order, attempt 1, {model.name}" in done.err


async def test_a_wrapped_inline_schema(client: Client, model: LocalModel) -> None:
    outcome = await client.ask_request(
        Request(
            request_id="inline-1",
            workflow_id="audit-2",
            answer_schema=InlineRef(name="finding", json_schema=FINDING),
            context=Context(
                instructions="Extract the finding. If there is one, `success` is true.",
                messages=(Message(role="user", content=AUDIT),),
                facts=(MANIFEST,),
            ),
            budget=Budget(attempts=5),
        ),
        timeout_s=LIMIT_S,
    )

    assert isinstance(outcome, Result), outcome
    assert_answered(outcome, model)
    answer = outcome.model_dump(mode="json")["answer"]
    assert set(answer) == {"output", "success", "notes", "failure_reason"}
    if answer["success"]:
        Draft202012Validator(FINDING).validate(answer["output"])
        assert answer["failure_reason"] is None
    else:
        assert answer["output"] is None
        assert answer["failure_reason"]


ASKS: dict[str, str] = {
    "agent_action": "Call the tool `get_order` once; its argument is `order_id`, "
    "and the order 4711.",
    "proposal": "The work is done. Say so briefly, with `complete` true and no actions.",
    "selection": "Which element pays now? There are btn-pay-now and btn-cancel.",
    "specialist": "Give the smallest even number above 2 as `output`, with `success` true.",
}


async def test_every_other_contract(client: Client, model: LocalModel) -> None:
    async def ask(name: str) -> Any:
        asked = Request(
            request_id=name,
            workflow_id=name,
            answer_schema=ContractRef(name=name, version=1),
            context=Context(instructions=ASKS[name]),
            budget=Budget(attempts=5),
        )
        return await client.ask_request(asked, timeout_s=LIMIT_S)

    for name, outcome in zip(ASKS, await asyncio.gather(*map(ask, ASKS)), strict=True):
        assert isinstance(outcome, Result), outcome
        assert_answered(outcome, model)
        schema(SCHEMAS / f"{name}.v1.json").validate(outcome.answer)


async def test_text(client: Client, model: LocalModel) -> None:
    outcome = await client.ask(
        "Say in one sentence what a lock file is for.",
        workflow_id="question-1",
        budget=Budget(attempts=3),
        timeout_s=LIMIT_S,
    )

    assert isinstance(outcome, Result), outcome
    assert_answered(outcome, model)
    assert isinstance(outcome.answer, str)
    assert outcome.answer.strip()
