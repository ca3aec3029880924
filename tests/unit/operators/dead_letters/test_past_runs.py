"""Which steps are read for the replay of a run: its own, and those of the runs below it."""

from types import SimpleNamespace
from typing import Any

import pytest

from answerbus.client.bus import Bus
from answerbus.dead_letter import DeadLetter
from answerbus.envelope import encode
from answerbus.request_key import RequestKey
from answerbus.toolset_card import ToolsetCard
from answerbus.topics import toolset_cards
from services.operators.adapters.replaying import PastRuns, past_runs, runs_to_read
from services.operators.records.stored import Stored
from tests.unit.console.context import Shelf
from tests.unit.operators.audit.test_step_verification import AT_MS, chained
from tests.unit.operators.dead_letters.examples import dead_letter_event
from tests.unit.operators.runs.events import AGENT, WORKFLOW, call, ended, step

CARD = ToolsetCard.model_validate(
    {
        "toolset": "orders",
        "tools": [
            {"name": "get_order", "args_schema": {"type": "object"}},
            {"name": "pay", "args_schema": {"type": "object"}, "delivery": "at_most_once"},
        ],
    }
)


def a_tree() -> list[Stored]:
    """A run with a child that pays; and another run with such a child."""
    records = []
    for name in ("r-1", "r-11"):
        child = f"{name}.call.1.0"
        records += [
            step(name, 1, call(name, 1, tool="delegate", args={"agent": "payer"})),
            step(child, 1, call(child, 1, tool="orders.pay"), call(child, 1, 1)),
            ended(f"{child}.call.1.0", request_id=child),
            ended(f"{child}.call.1.1", request_id=child),
            ended(child),
        ]
    return chained(records)


def keys(*names: str) -> frozenset[RequestKey]:
    return runs_to_read(RequestKey(WORKFLOW, name) for name in names)


def dead_letter(request_id: str) -> DeadLetter:
    run = {"agent": AGENT, "steps": 1, "tool_calls": 1}
    return dead_letter_event(
        request_id=request_id, workflow_id=WORKFLOW, run=run, request={"agent": {"name": "support"}}
    )


@pytest.mark.parametrize("other", [(), ("r-11",)])
async def test_the_effects_of_children_are_found_for_their_own_run_alone(
    other: tuple[str, ...],
) -> None:
    records = a_tree()
    card = Stored(toolset_cards("orders"), 0, 0, AT_MS, b"orders", encode(CARD).value, ())
    found = PastRuns(Shelf(records))
    found.take([card, *records], keys("r-1", *other))
    past = await found.of(dead_letter("r-1"))

    assert past.fault is None
    assert [effect.call_id for effect in past.effects] == ["r-1.call.1.0.call.1.0"]


def test_of_a_replay_the_run_before_it_is_read_too() -> None:
    """What that one asked of children is among the steps that are taken over."""
    assert keys("r-1.replay.2") == {RequestKey(WORKFLOW, name) for name in ("r-1.replay.2", "r-1")}


async def test_a_child_that_died_has_children_of_its_own() -> None:
    child, deeper = "r-1.call.2.0", "r-1.call.2.0.call.1.0"
    asked = call(child, 1, tool="delegate", args={"agent": "payer"})
    records = chained(
        [
            step(child, 1, asked),
            step(deeper, 1, call(deeper, 1, tool="orders.pay")),
            ended(f"{deeper}.call.1.0", request_id=deeper),
            ended(deeper, request_id=child),
        ]
    )
    found = PastRuns(Shelf(records))
    found.take(records, keys(child))
    past = await found.of(dead_letter(child))

    assert past.fault is None
    assert [effect.call_id for effect in past.effects] == [f"{deeper}.call.1.0"]


async def test_topics_that_are_hidden_are_named_where_a_run_cannot_go_on() -> None:
    """Kafka lists no topic to who may not describe it; started over, the run would pay again."""

    class Hidden(Bus):
        async def _counts(self) -> dict[str, int]:
            return {}

    row: Any = SimpleNamespace(workflow_id=WORKFLOW, request_id="r-1", agent=AGENT)
    async with past_runs(Hidden("localhost:1", "acme", {}), [row]) as found:
        past = await found.of(dead_letter("r-1"))

    assert past.fault is not None
    assert "(there is no topic acme.steps.v1 or acme.approvals.v1, or no right" in past.fault
