"""Look for the terminal of a request from the start of retention on."""

from collections.abc import Collection

from answerbus.client.bus import Bus
from answerbus.client.terminals import TOPICS, terminal_of
from answerbus.event import Terminal
from answerbus.request_key import RequestKey

_POLL_MS = 1_000


async def find_terminal(bus: Bus, request: RequestKey, partitions: Collection[int]) -> Terminal:
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
                    if (terminal := terminal_of(record, {request})) is not None:
                        return terminal
