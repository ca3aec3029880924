"""What a lane looks after from time to time has its moment also while the lane is busy."""

import asyncio

import pytest

from answerbus.topics import LEDGER
from services.worker.lane.state.own_record import RENEWED_AFTER
from tests.unit.worker.lane.fakes import Broker
from tests.unit.worker.lane.virtual import run
from tests.unit.worker.lane.world import FakeProvider, Worker, context, events, publish

EACH_S = 1.0
PERIODS = 3


@pytest.mark.wide
def test_a_lane_without_a_pause_writes_its_record_again() -> None:
    async def main() -> int:
        broker = Broker()
        worker = Worker(broker, context(FakeProvider()))
        await worker.open()
        before = len(lane_records(broker))
        for number in range(int(PERIODS * RENEWED_AFTER.total_seconds() / EACH_S)):
            publish(broker, f"r-{number}")
            await asyncio.sleep(EACH_S)
        renewed = len(lane_records(broker)) - before
        await worker.drain()
        return renewed

    assert run(main()) >= PERIODS - 1


def lane_records(broker: Broker) -> list[object]:
    return [event for event in events(broker, LEDGER) if event["kind"] == "lane"]
