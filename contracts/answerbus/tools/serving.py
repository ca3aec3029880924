"""Serves a toolset on Kafka: the composition root of a tool server."""

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from answerbus.client.bus import Bus
from answerbus.tools.core.intake import Offered
from answerbus.tools.kafka import SESSION_MS, kafka_channel
from answerbus.tools.server import CONCURRENCY_DEFAULT, DRAIN_S_DEFAULT, ToolServer
from answerbus.tools.toolset import Toolset
from answerbus.tools.topic_set_up import create_missing
from answerbus.topics import PREFIX_DEFAULT, TOOL_RESULTS

_log = logging.getLogger(__name__)


def serve(
    toolset: Toolset,
    bootstrap_servers: str | Sequence[str] = "localhost:9092",
    *,
    topic_prefix: str = PREFIX_DEFAULT,
    concurrency: int = CONCURRENCY_DEFAULT,
    drain_s: float = DRAIN_S_DEFAULT,
    **kafka: Any,
) -> None:
    """Serve until SIGTERM or Ctrl-C; `kafka` goes to aiokafka's clients as it is.

    Raises BusUnavailable, ServerStuckError, and ValueError for a `concurrency` of less than 1.
    """
    if concurrency < 1:
        raise ValueError(f"`concurrency` is 1 or more calls at a time, and not {concurrency}")
    bus = Bus(bootstrap_servers, topic_prefix, kafka)
    asyncio.run(serve_on(bus, toolset, concurrency=concurrency, drain_s=drain_s))


async def serve_on(
    bus: Bus,
    toolset: Toolset,
    *,
    concurrency: int = CONCURRENCY_DEFAULT,
    drain_s: float = DRAIN_S_DEFAULT,
    session_ms: int = SESSION_MS,
    on_ready: Callable[[ToolServer], None] | None = None,
) -> None:
    """As `serve`, on a running event loop; `on_ready` is called when the first calls are read."""
    await create_missing(bus, toolset.name)
    name = f"{socket.gethostname()}-{os.getpid()}"
    offered = Offered(toolset.name, toolset.tools, TOOL_RESULTS.full_name(bus.prefix))
    async with kafka_channel(bus, toolset.name, session_ms) as channel:
        server = ToolServer(
            offered, channel, _now, name=name, concurrency=concurrency, drain_s=drain_s
        )
        _on_signals(server.stop)
        card = toolset.card(name)
        await channel.announce(card.model_copy(update={"at": _now()}))
        channel.follow(server.claims)
        _log.info("serving %s as %s", ", ".join(_names(toolset)), name)
        if on_ready:
            on_ready(server)
        try:
            await server.run()
        finally:
            _log.info("served: %s", dict(server.counts))


def _names(toolset: Toolset) -> Iterator[str]:
    """As agents name them."""
    return (f"{toolset.name}.{name}" for name in toolset.tools)


def _on_signals(stop: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError, RuntimeError, ValueError):  # only in the main thread
            loop.add_signal_handler(number, stop)


def _now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 - this is the composition root
