"""Says that Kafka is away while a command waits for records, and that it is back."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from answerbus.client.bounded import take_error
from answerbus.client.bus import Bus
from answerbus.topics import RESULTS
from services.command_line import stderr
from services.operators.adapters.reader import reading

AWAY_AFTER_S = 5.0  # a connection that is made again at once is not worth a line


class KafkaAway:
    """Notices for `say`: one each time that Kafka is away, and one when it is back."""

    def __init__(self, servers: str, say: Callable[[str], None]) -> None:
        self._servers, self._say = servers, say
        self._since: float | None = None
        self._is_said = False

    def look(self, *, is_connected: bool, now: float | None = None) -> None:
        """Take in whether there is a connection to a broker now."""
        now = time.monotonic() if now is None else now
        if is_connected:
            if self._is_said:
                self._say(f"Kafka at {self._servers} answers again.")
            self._since, self._is_said = None, False
        elif self._since is None:
            self._since = now
        elif not self._is_said and now - self._since >= AWAY_AFTER_S:
            self._is_said = True
            self._say(f"No connection to Kafka at {self._servers}: this goes on once it is back.")


@asynccontextmanager
async def kafka_watched(
    bus: Bus, workflow_id: str, say: Callable[[str], None]
) -> AsyncIterator[None]:
    """Notices for as long as the block lasts, from a reader of its own."""
    task = asyncio.create_task(_watch(bus, workflow_id, say))
    try:
        yield
    finally:
        await end_notices(task)


async def end_notices(task: "asyncio.Task[None]") -> None:
    """End what only prints notices: also a failure of it takes the place of no outcome."""
    task.cancel()
    await asyncio.wait([task])
    take_error(task)


async def _watch(bus: Bus, workflow_id: str, say: Callable[[str], None]) -> None:
    async with reading(bus, (RESULTS,), workflow_id=workflow_id, from_start=False) as reader:
        away = KafkaAway(str(bus.servers), say)
        async for _ in reader.follow():
            away.look(is_connected=reader.is_connected)


def warn(text: str) -> None:
    """Print a notice beside the records."""
    stderr().print(text, style="yellow", markup=False)
