"""The listener of the consumer group: maps rebalances to lanes."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Protocol

from aiokafka import ConsumerRebalanceListener, TopicPartition

from services.worker.lane.lifecycle import Lifecycle
from services.worker.lane.state.machine import Event, State

RESTLESS_COUNT = 40  # assignments within
RESTLESS_S = 60.0

_log = logging.getLogger(__name__)


class PausingConsumer(Protocol):
    """The part of a consumer that the listener needs."""

    def pause(self, *partitions: TopicPartition) -> None: ...


class Membership(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka ships no types
    """Tells lanes whose their partitions are; its callbacks return at once, since none may wait."""

    def __init__(
        self,
        consumer: Callable[[], PausingConsumer],
        new_lane_lifecycle: Callable[[int], Lifecycle],
        share_out: Callable[[Collection[int]], None] = lambda _: None,
    ) -> None:
        """`share_out` is called with this worker's partitions at each assignment."""
        self.lifecycles: dict[int, Lifecycle] = {}
        self.assigned_at = float("-inf")  # loop time
        self._assignments: deque[float] = deque(maxlen=RESTLESS_COUNT)
        # Loop time; None while it is a member, which it is not at first.
        self.outside_since: float | None = asyncio.get_running_loop().time()
        self._draining = False
        self._consumer = consumer
        self._new_lane_lifecycle = new_lane_lifecycle
        self._share_out = share_out

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Every join and leave revokes everything from everyone, mostly for a moment."""
        if self.outside_since is None:
            self.outside_since = asyncio.get_running_loop().time()
        for place in revoked:
            if lifecycle := self.lifecycles.get(place.partition):
                lifecycle.on(Event.REVOKED)

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Pause first: records are delivered while this callback runs."""
        self.assigned_at = asyncio.get_running_loop().time()
        self._assignments.append(self.assigned_at)
        self.outside_since = None
        places = list(assigned)
        self._consumer().pause(*places)
        ours = {place.partition for place in places}
        self._share_out(ours)
        self.lifecycles = {
            partition: lifecycle
            for partition, lifecycle in self.lifecycles.items()
            if lifecycle.lane.state is not State.CLOSED
        }
        for partition, lifecycle in self.lifecycles.items():
            if partition not in ours:
                lifecycle.on(Event.ASSIGNED_ELSEWHERE)
        for partition in ours:
            if partition not in self.lifecycles:
                if self._draining:
                    continue  # the next worker that has the partition opens its lane
                self.lifecycles[partition] = self._new_lane_lifecycle(partition)
            self.lifecycles[partition].on(Event.ASSIGNED)

    @property
    def is_outside(self) -> bool:
        """Whether it is not a member now."""
        return self.outside_since is not None

    @property
    def was_member(self) -> bool:
        """Whether it has ever been a member."""
        return self.assigned_at != float("-inf")

    @property
    def rebalances_often(self) -> bool:
        """Whether partitions come and go more often than workers start and stop."""
        if len(self._assignments) < RESTLESS_COUNT:
            return False
        return asyncio.get_running_loop().time() - self._assignments[0] < RESTLESS_S

    async def drain(self, limit_s: float) -> None:
        """Drain all lanes side by side; none is opened any more."""
        self._draining = True
        draining = (lifecycle.drain(limit_s) for lifecycle in self.lifecycles.values())
        for ended in await asyncio.gather(*draining, return_exceptions=True):
            if isinstance(ended, Exception):  # a bug; the other lanes are drained all the same
                _log.error("a lane was not drained", exc_info=ended)
