"""Replaces the group's consumer when it will not recover by itself.

A consumer of aiokafka keeps some errors for ever: that of a heartbeat that was refused once, of a
background task that has ended. A new one joins the group again, and lanes go on where they were.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from aiokafka import TopicPartition

from answerbus.client.bounded import bounded
from answerbus.client.diagnosis import describe_error_for_log
from services.worker.adapters.kafka.membership import Membership
from services.worker.adapters.kafka.read_monitor import ReadMonitor, Subscriber
from services.worker.tasks.rounds import rounds

LOOK_EVERY_S = 1.0
STANDSTILL_S = 5.0  # a look that is so late had to wait for the whole process
STOP_TIMEOUT_S = 5.0  # for a consumer that is given up
AGAIN_FIRST_S = 1.0  # until a consumer that could not be started is tried again
AGAIN_MAX_S = 5.0
PATIENCE_MAX = 16  # times the bounds, when one consumer after the other fails

_log = logging.getLogger(__name__)


async def renew(subscriber: Subscriber, membership: Membership, topic: str, limit_s: float) -> None:
    """Join the group with a new consumer; lanes go on where they are. Raises if it fails."""
    places = [TopicPartition(topic, partition) for partition in membership.lifecycles]
    membership.on_partitions_revoked(places)
    await _end(subscriber)
    try:
        await bounded(subscriber.start(), limit_s)
    except BaseException:
        await _end(subscriber)
        raise


async def _end(subscriber: Subscriber) -> None:
    with suppress(Exception):  # it is given up because it is broken
        await bounded(subscriber.stop(), STOP_TIMEOUT_S)
    subscriber.consumer = None


class Renewal:
    """Watches; `renew` makes a new consumer, and raises if it cannot be started."""

    def __init__(
        self,
        read_monitor: ReadMonitor,
        renew: Callable[[], Awaitable[None]],
        session_s: float,
        rebalance_s: float,
        stuck_after_s: float,
    ) -> None:
        self._reading, self._renew = read_monitor, renew
        self._session_s = session_s
        self._silent_s = session_s + rebalance_s  # while the group rebalances, polls wait
        self._unread_s = max(session_s, stuck_after_s)
        self._patience = 1
        self._renewed_at = float("-inf")
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Watch from now on: a consumer has just been started."""
        self._reading.forget()
        watching = rounds("the watch over the consumer", self._round, 0.0)  # a round begins asleep
        self._task = asyncio.create_task(watching, name="renewal of the consumer")

    async def stop(self) -> None:
        """Watch no more; a renewal under way is given up."""
        if self._task:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _round(self) -> None:
        if await self._slept_too_long():
            self._reading.forget()
            return
        why = self._reading.beyond_recovery(
            self._session_s * self._patience,
            self._silent_s * self._patience,
            self._unread_s * self._patience,
        )
        if why is None:
            return
        _log.error("replacing the group consumer: %s", why)
        self._back_off()
        await self._replace()
        _log.warning("group consumer replaced")

    async def _slept_too_long(self) -> bool:
        """Whether the process stood still meanwhile: then no consumer could do anything."""
        now = asyncio.get_running_loop().time
        began = now()
        await asyncio.sleep(LOOK_EVERY_S)
        return now() - began > LOOK_EVERY_S + STANDSTILL_S

    def _back_off(self) -> None:
        """Each consumer makes all members of the group join again: not for an error that stays."""
        now = asyncio.get_running_loop().time()
        calm_s = 2 * self._patience * (self._session_s + self._unread_s)
        is_calm = now - self._renewed_at > calm_s
        self._patience = 1 if is_calm else min(self._patience * 2, PATIENCE_MAX)
        self._renewed_at = now

    async def _replace(self) -> None:
        delay_s = AGAIN_FIRST_S
        while True:
            try:
                await self._renew()
            except Exception as error:
                self._reading.failed(error)
                _log.warning("a consumer could not be started: %s", describe_error_for_log(error))
                await asyncio.sleep(delay_s)
                delay_s = min(delay_s * 2, AGAIN_MAX_S)
            else:
                self._reading.forget()
                return
