"""The reader of a job's outcomes: those who wait are told of each end of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Never

import pytest

from answerbus.client.bus import Bus
from answerbus.client.errors import BusUnavailable
from answerbus.client.workflow_outcomes import Wanted, workflow_outcomes

LIMIT_S = 5.0


class CancelsItself:
    """A consumer that awaits a future which it has cancelled."""

    def assign(self, _: Any) -> None: ...

    def seek(self, *_: Any) -> None: ...

    async def end_offsets(self, places: list[Any]) -> dict[Any, int]:
        return dict.fromkeys(places, 0)

    async def getmany(self, **_: Any) -> Never:
        await asyncio.sleep(0)
        raise asyncio.CancelledError


class OneBus(Bus):
    def consumer(self, **_: Any) -> Any:
        return CancelsItself()

    @asynccontextmanager
    async def running(self, client: Any) -> AsyncIterator[Any]:
        yield client


async def test_a_consumer_that_cancels_itself_ends_each_wait() -> None:
    bus, wanted = OneBus("there:9092", "answerbus", {}), Wanted("job", {})
    async with (
        asyncio.timeout(LIMIT_S),
        workflow_outcomes(bus, wanted, [0], is_new=True) as outcomes,
    ):
        with pytest.raises(BusUnavailable, match="cancelled its own request"):
            await outcomes.wait("row-1")
