"""A lane's life under faults: nothing is lost, doubled, paid for in secret, or left waiting."""

import asyncio

from services.worker.lane.lane import State
from tests.unit.lane.fakes import Broker
from tests.unit.lane.virtual import run
from tests.unit.lane.world import (
    FakeProvider,
    Worker,
    audit,
    context,
    done,
    publish,
    terminals,
    until,
)


def test_requests_are_answered_and_the_worker_leaves() -> None:
    async def main() -> None:
        broker, provider = Broker(), FakeProvider()
        for number in range(5):
            publish(broker, f"r-{number}")
        worker = Worker(broker, context(provider))
        await worker.open()
        await until(lambda: done(broker, {f"r-{n}" for n in range(5)}))
        await worker.drain()

        assert set(terminals(broker).values()) == {"result"}
        assert worker.lane.state is State.CLOSED
        audit(broker, provider)
        await asyncio.sleep(1)

    run(main())
