"""Events and answers as FastAPI's bodies and FastStream's messages, with nothing in between."""

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from faststream.kafka import KafkaBroker, TestKafkaBroker

from answerbus.answers.agent_action import AgentAction
from answerbus.answers.plan_proposal import PlanProposal
from answerbus.dead_letter import DeadLetter
from answerbus.outcome import Refusal, Result

EXAMPLES = Path(__file__).parents[2] / "contracts" / "examples"
RESULT = json.loads((EXAMPLES / "result" / "dep_bump.json").read_text("utf-8"))
REFUSAL = json.loads(next(iter(sorted((EXAMPLES / "refusal").glob("*.json")))).read_text("utf-8"))
DEAD_LETTERS = [
    p for p in sorted((EXAMPLES / "dead_letter").glob("*.json")) if p.stem != "replayed"
]
ACTION = {"actions": [{"kind": "text_response", "content": "Done."}]}


@pytest.fixture
def http() -> TestClient:
    app = FastAPI()

    @app.post("/results")
    def take_result(result: Result[PlanProposal]) -> Result[PlanProposal]:
        return result

    @app.post("/refusals")
    def take_refusal(refusal: Refusal) -> str:
        return refusal.by

    @app.post("/letters")
    def take_dead_letter(dead_letter: DeadLetter) -> str:
        return dead_letter.cause.kind

    @app.post("/actions")
    def take_action(action: AgentAction) -> AgentAction:
        return action

    return TestClient(app)


def test_fastapi_takes_and_gives_a_typed_result(http: TestClient) -> None:
    answered = http.post("/results", json=RESULT)

    assert answered.status_code == 200, answered.text
    assert answered.json()["answer"] == RESULT["answer"]
    assert answered.json()["requested_at"] == RESULT["requested_at"]


def test_fastapi_refuses_what_is_no_such_result(http: TestClient) -> None:
    wrong = {**RESULT, "answer": {**RESULT["answer"], "kind": "no such kind"}}

    assert http.post("/results", json=wrong).status_code == 422


@pytest.mark.parametrize("path", DEAD_LETTERS, ids=lambda path: path.stem)
def test_fastapi_takes_each_dead_letter(http: TestClient, path: Path) -> None:
    dead_letter = json.loads(path.read_text("utf-8"))
    answered = http.post("/letters", json=dead_letter)

    assert answered.json() == dead_letter["cause"]["kind"]


def test_fastapi_takes_refusals_and_answers(http: TestClient) -> None:
    assert http.post("/refusals", json=REFUSAL).json() == REFUSAL["by"]
    assert http.post("/actions", json=ACTION).json() == ACTION


async def test_faststream_hands_a_typed_result_to_its_subscriber() -> None:
    broker, taken = KafkaBroker(), list[Any]()

    @broker.subscriber("answerbus.results.v1")
    async def book(result: Result[PlanProposal]) -> None:
        taken.append(result)

    async with TestKafkaBroker(broker) as bus:
        await bus.publish(RESULT, "answerbus.results.v1")

    assert taken == [Result[PlanProposal].model_validate_json(json.dumps(RESULT))]
