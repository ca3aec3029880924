"""Calls a client library within a bounded time, even if it swallows cancellations.

A library may swallow the cancellation by which a time-out ends it, and wait on; or it may await a
future that it has cancelled itself, and its caller takes that for a cancellation of its own. Both
were seen of aiokafka while brokers were restarted and rights withdrawn.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import Any, TypeVar

from aiokafka.errors import KafkaError

from answerbus.client.diagnosis import describe_error_for_log

CLEAN_UP_S = 1.0  # for work that was cancelled, before it is left behind
STOP_TIMEOUT_S = 5.0  # for a client that is no longer needed

_log = logging.getLogger(__name__)

T = TypeVar("T")


class ClientCancelled(KafkaError):  # type: ignore[misc]  # aiokafka ships no types
    """The library cancelled a call of its own accord: an error of Kafka's client like others."""

    def __init__(self) -> None:
        super().__init__("Kafka's client cancelled its own request")


async def _wait(tasks: "Collection[asyncio.Task[Any]]", limit_s: float) -> None:
    await asyncio.wait(tasks, timeout=limit_s)


async def wait_for_end(tasks: "Collection[asyncio.Task[Any]]", limit_s: float) -> None:
    """For `bounded`: where its caller is cancelled, the work may still end, for CLEAN_UP_S.

    A client of Kafka whose start is cut off leaves a connection open that nothing closes.
    """
    try:
        await asyncio.wait(tasks, timeout=limit_s)
    except asyncio.CancelledError:
        await asyncio.wait(tasks, timeout=CLEAN_UP_S)
        raise


async def bounded(
    work: Coroutine[Any, Any, T],
    limit_s: float,
    wait: "Callable[[Collection[asyncio.Task[Any]], float], Awaitable[None]]" = _wait,
) -> T:
    """The result of the work, done in a task of its own; `wait` waits for it, but no longer.

    Raises what the work raises, TimeoutError at the limit, and ClientCancelled if the work ended
    in a cancellation that did not come from here.
    """
    task = asyncio.create_task(work)
    task.add_done_callback(take_error)
    try:
        await wait([task], limit_s)
    finally:
        if is_late := not task.done():
            await _end(task)
    if is_late:
        raise TimeoutError
    if task.cancelled():
        raise ClientCancelled
    return task.result()


async def close(closing: Coroutine[Any, Any, object]) -> None:
    """Close a client; one that cannot be closed is left behind, and hides no other error."""
    try:
        await bounded(closing, STOP_TIMEOUT_S)
    except ClientCancelled:  # it waited for its own work, which it had ended: no news to anyone
        _log.info("a client of Kafka cancelled its own close")
    except Exception as error:
        _log.warning("a client of Kafka was not closed: %s", describe_error_for_log(error))


def was_cancelled(error: BaseException) -> bool:
    """Whether the running task was cancelled, or wants it to end otherwise.

    A cancellation that a library brought upon itself looks the same, but for the count.
    """
    if not isinstance(error, asyncio.CancelledError):
        return not isinstance(error, Exception)
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


async def _end(task: "asyncio.Task[Any]") -> None:
    """Cancel, and wait a moment; a task that ignores its cancellation goes on without us."""
    task.cancel()
    await asyncio.wait([task], timeout=CLEAN_UP_S)


def take_error(ended: "asyncio.Future[Any]") -> None:
    """Retrieve the error of work whose caller has gone: asyncio would report it otherwise."""
    if not ended.cancelled():
        ended.exception()
