"""Children that are made before their step is settled are those that the step then asks."""

from typing import Any

import pytest

from answerbus.topics import RUNS
from tests.unit.worker.core.run_builders import actions, says
from tests.unit.worker.lane.delegating import DelegatingStage, delegate, wrapped
from tests.unit.worker.lane.test_delegation import told
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.lane.world import events

pytestmark = pytest.mark.wide

EXACT = 2**53 + 1


def schema_of(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [],
        "additionalProperties": False,
    }


@on_virtual_time
async def test_a_call_that_asks_no_child_takes_the_place_of_none() -> None:
    """The first repeats one of the step before; the schema of the other is too large to wait."""
    large = schema_of({f"p{number}": {"type": "string"} for number in range(60)})
    again = actions(delegate("a"), delegate("b", json_schema=large))
    steps = (actions(delegate("a")), again, actions(says("Joined.")))
    answers = {"r-1.call.2.1": (wrapped({"p1": "x"}),)}
    stage = DelegatingStage(steps, answers, children_max=2)
    await told(stage)

    assert {kind["kind"] for kind in stage.ended().values()} == {"ok"}
    assert len(stage.children()) == 2


@on_virtual_time
async def test_parts_whose_schemas_share_a_digest_are_different_children() -> None:
    schemas = [schema_of({"n": {"const": value}}) for value in (EXACT, str(EXACT))]
    both = actions(*(delegate("a", json_schema=schema) for schema in schemas))
    answers = {
        f"r-1.call.1.{place}": (wrapped({"n": value}),)
        for place, value in enumerate((EXACT, str(EXACT)))
    }
    stage = DelegatingStage((both, actions(says("Joined."))), answers)
    await told(stage)

    asked = [
        event["request"] for event in events(stage.broker, RUNS) if event["kind"] == "run_child"
    ]
    found = {one["request_id"]: one["answer_schema"]["json_schema"] for one in asked}
    assert found == {f"r-1.call.1.{place}": schema for place, schema in enumerate(schemas)}
