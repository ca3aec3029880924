"""A worker that does not use the topics of runs says what it leaves undone, and why."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from answerbus.partition import Layout
from answerbus.topics import LEASES, RUN_TOPICS, TOPICS, Topic
from services.kafka.planning.plan import Found
from services.settings.settings import KafkaSettings
from services.worker.adapters.kafka import broker_check
from services.worker.adapters.kafka.broker_check import NO_RIGHTS, RUNS_OFF, deployment_layout
from services.worker.adapters.kafka.membership import Membership
from services.worker.health.reasons import advice
from tests.unit.worker.health.watch import health_inputs
from tests.unit.worker.lane.world import FakeProvider, context

ALL = {topic: Found(12, topic.settings()) for topic in (*TOPICS, *RUN_TOPICS)}
PLAIN = {topic: ALL[topic] for topic in TOPICS}
SOME = {topic: found for topic, found in ALL.items() if topic is not LEASES}
MISSING = (
    f"{RUNS_OFF}: The topic answerbus.leases.v1 is missing on localhost:9092; create all topics "
    "with `answerbus topics apply`."
)


@pytest.mark.parametrize(
    ("found", "may_use", "expected"),
    [
        (ALL, True, None),
        (PLAIN, True, None),
        (PLAIN, False, None),
        (ALL, False, f"{RUNS_OFF}: {NO_RIGHTS}"),
        (SOME, True, MISSING),
    ],
)
async def test_why_the_topics_of_runs_are_not_used(
    found: Mapping[Topic, Found],
    may_use: bool,
    expected: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def look(*_: object) -> tuple[Mapping[Topic, Found], Layout, None]:
        return found, Layout(12), None

    monkeypatch.setattr(broker_check, "_look", look)
    layout = await deployment_layout(KafkaSettings(), needs_runs=False)
    assert layout.runs_off(may_use=may_use) == expected


def lanes() -> Sequence[object]:
    raise AssertionError


async def test_ready_says_so() -> None:
    around = context(FakeProvider())
    around = replace(around, runs=replace(around.runs, off_because=RUNS_OFF))
    membership = Membership(lanes, lanes)  # type: ignore[arg-type]  # not called
    assert advice(health_inputs(membership, around)) == (RUNS_OFF,)
