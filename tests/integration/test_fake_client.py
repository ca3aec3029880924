"""The client for users' tests and the real one say the same of the same asks, on a real worker."""

import json
from typing import Any

import pytest
from pydantic import BaseModel

from answerbus.answers.plan_proposal import PlanProposal
from answerbus.answers.specialist import Specialist
from answerbus.budget import Budget
from answerbus.client import Client
from answerbus.client.testing import FakeClient, answered, refused
from answerbus.event import AnyOutcome
from answerbus.outcome import Refusal, Result
from answerbus.request import Context, ContractRef, Request
from tests.integration.bus import DEP_BUMP, Bus

pytestmark = pytest.mark.kafka

REFUSE = {"kind": "refuse", "reason": "out_of_scope", "detail": "No release is fixed."}
# What the differences between a fake and a real worker may be.
VARYING = {"model", "usage", "notes", "requested_at", "finished_at", "at", "origin"}


class Route(BaseModel):
    team: str


REPLIES: dict[str, Any] = {
    "text": "Goeie!",
    "bump": DEP_BUMP,
    "declined": REFUSE,
    "route": {"team": "web"},
    "wrapped": {"output": {"team": "web"}, "success": True, "notes": [], "failure_reason": None},
    "first": "one",
}


async def asks(client: Client) -> list[dict[str, Any]]:
    """Some of everything, by ids that tell replies apart."""

    async def ask(request_id: str, form: Any = str, **more: Any) -> AnyOutcome:
        return await client.ask(
            "Do it.",
            **{"workflow_id": request_id, "request_id": request_id, **more},
            response_model=form,
        )

    poor = Budget(attempts=1)
    unknown = ContractRef(name="nothing", version=1)
    context = Context(instructions="Do it.")
    outcomes = [
        await ask("text"),
        await ask("bump", PlanProposal),
        await ask("declined", PlanProposal),
        await ask("route", Route),
        await ask("wrapped", Specialist[Route]),
        await ask("filtered"),
        await ask("first", workflow_id="poor", budget=poor),
        await ask("second", workflow_id="poor", budget=Budget(attempts=9)),
        await ask("misspelt", profile="defualt"),
        await client.ask_request(
            Request(request_id="no", workflow_id="no", answer_schema=unknown, context=context)
        ),
    ]
    assert await ask("text") == outcomes[0]
    outcomes.append(await client.ask("Otherwise.", workflow_id="text", request_id="text"))
    found = await client.outcome_of("bump", "bump", response_model=PlanProposal)
    return [as_data(outcome) for outcome in (*outcomes, found)]


def as_data(outcome: AnyOutcome) -> dict[str, Any]:
    """All that does not depend on who answered, and when."""
    data: dict[str, Any] = json.loads(outcome.model_dump_json(exclude=VARYING))
    if data["kind"] == "dead_letter":  # a letter about a record is named by its place
        data = {name: data[name] for name in ("kind", "request_id", "cause", "request")}
    if "account" in data:
        data["account"]["spent"].pop("tokens")
    if data["kind"] == "result" and data["schema"]["kind"] != "contract":
        data["schema"].pop("digest")
    if isinstance(data.get("answer"), dict):
        data["answer"].pop("notes", None)  # of a wrapped answer: the worker's own are among them
    return data


async def test_a_fake_and_a_real_worker_end_requests_alike(bus: Bus) -> None:
    rules = [
        {"when": {"request_id": name}, "reply": {"kind": "answered", "json": said(reply)}}
        if not isinstance(reply, str)
        else {"when": {"request_id": name}, "reply": {"kind": "answered", "content": reply}}
        for name, reply in REPLIES.items()
    ]
    filtered = {"kind": "refused", "reason": "Not here.", "category": "policy"}
    bus.start_worker(bus.config([*rules, {"reply": filtered}]))
    fake = FakeClient(profiles={"default"})
    fake.prepare_by(
        lambda request: (
            answered(REPLIES[request.request_id])
            if request.request_id in REPLIES
            else refused("Not here.", category="policy")
        )
    )

    async with Client(bus.bootstrap, topic_prefix=bus.prefix) as client:
        real = await asks(client)

    for mine, theirs in zip(await asks(fake), real, strict=True):
        assert mine == theirs
    assert {one["kind"] for one in real} >= {Result.__name__.lower(), Refusal.__name__.lower()}


def said(reply: dict[str, Any]) -> dict[str, Any]:
    """What a model says: also what is for auditors alone."""
    return {**reply, "rationale": "because"} if reply.get("kind") else reply
