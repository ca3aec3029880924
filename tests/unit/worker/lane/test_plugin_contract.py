"""A contract that a plugin brings takes the whole way of a request, like those that ship."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from answerbus.request import ContractRef
from answerbus.topics import ATTEMPTS, DEAD_LETTERS, REFUSALS, RESULTS
from services.settings import plugins
from services.worker.core.attempt.reply import Reply
from services.worker.planning.planner import Planner
from tests.unit.worker.builders import answered
from tests.unit.worker.lane.fakes import Broker
from tests.unit.worker.lane.virtual import run
from tests.unit.worker.lane.world import (
    FakeProvider,
    Worker,
    audit,
    context,
    done,
    events,
    publish,
    until,
)

REF = {"kind": "contract", "name": "ticket_routing", "version": 1}
ROUTE = {"kind": "route", "team": "billing", "urgent": True}
SAID: dict[str, list[Any]] = {
    "routed": [ROUTE | {"team": "sales", "rationale": "?"}, ROUTE | {"rationale": "charged twice"}],
    "refused": [{"kind": "no_ticket", "why": "spam", "rationale": "sells watches"}],
    "malformed": ['{"rationale": "for auditors", Which order is it?'] * 2,
}


def play(request_id: str, attempt: int) -> tuple[float, Reply]:
    reported = SAID[request_id][attempt - 1]
    return 1.0, answered(reported if isinstance(reported, str) else json.dumps(reported))


@pytest.fixture
def bus(tickets_plugin: Path, monkeypatch: pytest.MonkeyPatch) -> Broker:
    """A bus on which a worker with the plugin has answered everything."""
    monkeypatch.syspath_prepend(str(tickets_plugin))
    registry = plugins.registry()
    broker, provider = Broker(), FakeProvider(play)

    async def main() -> None:
        around = context(provider)
        around = replace(around, planner=Planner(around.planner.backends, registry))
        worker = Worker(broker, around)
        for name in SAID:
            asked: dict[str, Any] = {"answer_schema": REF, "policy": {"at_last": "text"}}
            publish(broker, name, budget={"attempts": 5}, **asked)
        publish(broker, "unheard", answer_schema=REF | {"version": 2})
        await worker.open()
        await until(lambda: done(broker, [*SAID, "unheard"]), 600)
        await worker.drain()
        audit(broker, provider)

    run(main())
    return broker


@pytest.mark.wide
def test_a_plugins_contract_is_answered_and_refused_like_any_other(bus: Broker) -> None:
    contract = plugins.registry().find(ContractRef(name="ticket_routing", version=1))
    assert contract is not None
    results = {event["request_id"]: event for event in events(bus, RESULTS)}
    (refusal,) = events(bus, REFUSALS)
    dead_letters = {event["request_id"]: event for event in events(bus, DEAD_LETTERS)}
    rationales = [event["rationale"] for event in events(bus, ATTEMPTS)]

    assert results["routed"]["answer"] == ROUTE
    assert results["routed"]["schema"] == json.loads(contract.id.model_dump_json())
    Draft202012Validator(contract.schema()).validate(ROUTE)
    assert (refusal["by"], refusal["category"]) == ("model", "spam")
    assert refusal["answer"] == {"kind": "no_ticket", "why": "spam"}
    assert dead_letters["unheard"]["cause"] == {"kind": "unknown_schema"}
    assert dead_letters["malformed"]["cause"] == {"kind": "budget_exhausted", "which": "attempts"}
    assert [text for text in rationales if text] == ["charged twice", "sells watches"]
