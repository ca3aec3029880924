"""A deployment without topics of runs: nothing that is asked there makes a worker write to one."""

from typing import Any

import pytest

from answerbus.topics import DEAD_LETTERS
from tests.unit.worker.lane.stage import Stage
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.lane.world import events, terminals

PARENT = {"request_id": "r-0", "call_id": "r-0.call.1.0"}


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ({"parent": PARENT}, "unknown_parent"),
        ({"agent": {"name": "support"}}, "unknown_agent"),
        ({"agent": {"name": "support"}, "parent": PARENT}, "unknown_parent"),
    ],
)
@on_virtual_time
async def test_a_request_of_a_run_ends_and_stops_no_other(more: dict[str, Any], kind: str) -> None:
    """The end of one with `parent` was written to the topic of runs: its lane did nothing more."""
    stage = Stage()
    await stage.worker.open()
    stage.publish("r-1", **more)
    stage.publish("r-2")
    await stage.all_done(60)

    assert terminals(stage.broker) == {"r-1": "dead_letter", "r-2": "result"}
    assert [event["cause"]["kind"] for event in events(stage.broker, DEAD_LETTERS)] == [kind]
    assert len(stage.worker.shards) == 1
    await stage.end()
