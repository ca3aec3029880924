"""From a request to how it is asked, or why it cannot be."""

from answerbus.dead_letter import UnknownAgent
from answerbus.registry import Registry
from services.worker.planning.planner import Planner
from tests.unit.worker.builders import request


def test_an_agent_that_the_worker_does_not_know_begins_no_run() -> None:
    planner = Planner({}, Registry())

    assert planner.begin_run(request(agent={"name": "support"})) == UnknownAgent()
