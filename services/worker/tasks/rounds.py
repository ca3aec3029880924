"""A background task in rounds: an error is logged, and the next round follows.

Nor does a cancellation that Kafka's client brought upon itself.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NoReturn

from answerbus.client.bounded import was_cancelled
from answerbus.client.diagnosis import describe_error_for_log

QUIET_S = 60.0  # after a failure, for others with the same cause

_log = logging.getLogger(__name__)


async def rounds(name: str, do: Callable[[], Awaitable[None]], pause_s: float) -> NoReturn:
    """Do it again and again; a failure with the cause of one just before is not logged.

    A round may last for ever. What fails at once, and again and again, is logged the first time.
    """
    loop = asyncio.get_running_loop()
    logged: str | None = None
    failed_at = loop.time()
    while True:
        try:
            await do()
        except BaseException as error:
            if was_cancelled(error):
                raise
            cause = describe_error_for_log(error)
            if cause != logged or loop.time() - failed_at > QUIET_S + pause_s:
                _log.exception("%s: round failed, retrying: %s", name, cause)
            logged, failed_at = cause, loop.time()
        else:
            logged = None
        await asyncio.sleep(pause_s)
