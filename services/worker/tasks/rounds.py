"""A background task in rounds: an error is logged, and the next round follows.

Nor does a cancellation that Kafka's client brought upon itself.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NoReturn

from answerbus.client.bounded import was_cancelled
from answerbus.client.diagnosis import describe_error_for_log

_log = logging.getLogger(__name__)


async def rounds(name: str, do: Callable[[], Awaitable[None]], pause_s: float) -> NoReturn:
    """Do it again and again; of failures with the same cause in a row the first is logged."""
    logged: str | None = None
    while True:
        try:
            await do()
        except BaseException as error:
            if was_cancelled(error):
                raise
            cause = describe_error_for_log(error)
            if cause != logged:
                _log.exception("%s: round failed, retrying: %s", name, cause)
            logged = cause
        else:
            logged = None
        await asyncio.sleep(pause_s)
