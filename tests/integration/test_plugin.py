"""A worker process answers by the contract of a plugin that pip has installed, on a real Kafka."""

import os
from pathlib import Path

import pytest

from tests.integration.bus import Bus, request

pytestmark = pytest.mark.kafka

ROUTE = {"kind": "route", "team": "billing", "urgent": True}


async def test_a_worker_knows_the_contract_of_an_installed_plugin(
    bus: Bus, tickets_plugin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inherited = os.environ.get("PYTHONPATH", "")  # noqa: TID251 - for a child
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tickets_plugin), inherited]))
    reply = {"kind": "answered", "json": ROUTE | {"rationale": "charged twice"}}
    bus.start_worker(bus.config([{"reply": reply}]))
    schema = {"kind": "contract", "name": "ticket_routing", "version": 1}

    await bus.publish([request("r-1", "w-1", answer_schema=schema)])
    (result,) = await bus.terminals(1)

    assert (result["kind"], result["answer"]) == ("result", ROUTE)
    assert result["schema"]["name"] == "ticket_routing"
