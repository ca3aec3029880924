"""Look for the terminal of a request from the start of retention on."""

from collections.abc import Collection

from answerbus.client.bus import Bus
from answerbus.client.terminals import TOPICS, terminal_of
from answerbus.event import Terminal

_POLL_MS = 1_000


async def find_terminal(bus: Bus, request_id: str, partitions: Collection[int]) -> Terminal:
    """The first terminal of the request in these partitions; waits until there is one."""
    consumer = bus.consumer(auto_offset_reset="earliest")
    async with bus.running(consumer):
        consumer.assign(
            [bus.place(topic, partition) for topic in TOPICS for partition in partitions]
        )
        while True:
            with bus.explained():
                found = await consumer.getmany(timeout_ms=_POLL_MS)
            for records in found.values():
                for record in records:
                    if (terminal := terminal_of(record, {request_id})) is not None:
                        return terminal
