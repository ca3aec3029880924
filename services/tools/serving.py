"""Serves a toolset with the settings of the command line."""

import asyncio
import logging

from answerbus.tools.kafka import SESSION_MS
from answerbus.tools.server import ServerStuckError
from answerbus.tools.serving import serve_on
from answerbus.tools.toolset import Toolset
from services.command_line import bus_of
from services.settings import KafkaSettings, SetUpError


def serve_toolset(
    settings: KafkaSettings, toolset: Toolset, concurrency: int, drain_s: float
) -> None:
    """Until SIGTERM or Ctrl-C. Raises BusUnavailable, SetUpError."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    session_ms = min(settings.session_timeout_ms, SESSION_MS)
    serving = serve_on(
        bus_of(settings), toolset, concurrency=concurrency, drain_s=drain_s, session_ms=session_ms
    )
    try:
        asyncio.run(serving)
    except ServerStuckError as error:
        raise SetUpError(f"The tool server ends: {error}; start it again.") from error
