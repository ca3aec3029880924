"""The consumer group by KIP-848: members have epochs of their own, and what stays goes on."""

import asyncio
import random
from contextlib import suppress
from functools import partial

from aiokafka import TopicPartition
from aiokafka.errors import CommitFailedError

from tests.simulation.boundary import Boundary
from tests.simulation.cluster import Cluster
from tests.simulation.consumer import PartitionState, SimConsumer
from tests.simulation.group import HEARTBEAT_S, Group

JOINS = -1  # the epoch of one who is no member


class NextGroup(Group):
    """A heartbeat says what a member has, and is answered with what it may have.

    A partition that moves is first taken from its member, who says by its next heartbeat that it
    is gone; only then it is given to the other.
    """

    def __init__(
        self, cluster: Cluster, partitions: int, boundary: Boundary, chance: random.Random
    ) -> None:
        super().__init__(cluster, partitions, boundary, chance)
        self._epochs: dict[SimConsumer, int] = {}
        self._holders: dict[int, SimConsumer] = {}

    def heartbeat(
        self, member: SimConsumer, epoch: int, has: list[int]
    ) -> tuple[int, list[int]] | None:
        """The member's epoch and partitions; None for one who is a member no longer."""
        if epoch == JOINS and member in self._cluster.consumers and member not in self.members:
            self.members.append(member)
            self.rebalance()
        if member not in self.members or epoch not in {JOINS, self._epochs.get(member)}:
            return None
        self._holders = {p: m for p, m in self._holders.items() if m is not member or p in has}
        due = [p for p in sorted(self.owners) if self.owners[p] is member]
        given = [p for p in has if p in due]
        if len(given) == len(has):  # nothing is left to be taken first
            given = [p for p in due if self._holders.get(p, member) is member]
        self._holders |= dict.fromkeys(given, member)
        self._epochs[member] = self.generation
        return self.generation, given

    def leave(self, member: SimConsumer) -> None:
        self._holders = {p: who for p, who in self._holders.items() if who is not member}
        self._epochs.pop(member, None)
        if member in self.members:
            self.members.remove(member)
            self.rebalance()

    def rebalance(self) -> None:
        """Make another plan; members hear of it one by one."""
        self.generation += 1
        self._assign()

    def commit(self, member: SimConsumer, generation: int, partition: int, offset: int) -> None:
        """Take an offset, if it comes from a member in its present epoch."""
        if member not in self.members or generation != self._epochs.get(member):
            raise CommitFailedError(f"epoch {generation} of {self._epochs.get(member)}")
        self._cluster.offsets[partition] = offset
        self.boundary.proved(member.process, partition)


class NextSimConsumer(SimConsumer):
    """As tests/benchmarks/next_rebalance/consumer.py has it: the listener hears of what moves."""

    _group: NextGroup

    async def _belong(self) -> None:
        while True:
            has = sorted(self._states)
            says = partial(self._group.heartbeat, self, self._generation, has)
            heard = await self._cluster.ask(says)
            self._is_rejoining = False
            self._generation, given = heard or (JOINS, [])
            if not self._take(given) and heard:
                await self._sleep()

    def _take(self, given: list[int]) -> bool:
        """Whether something was taken away, which the group hears at once."""
        lost = [partition for partition in self._states if partition not in given]
        new = [partition for partition in given if partition not in self._states]
        for partition in lost:
            self._group.boundary.taken(self.process, partition, self._cluster.clock.now())
            del self._states[partition]
        for partition in new:
            self._states[partition] = PartitionState()
            self._group.boundary.assigned(self.process, partition)
        if lost:
            self._tell(f"is revoked {lost}")
            places = [TopicPartition(self._topic, partition) for partition in lost]
            self._listener.on_partitions_revoked(places)
        if (lost or new) and self._states:
            for partition in self._states:  # the group has just said so
                self._group.boundary.proved(self.process, partition)
            self._tell(f"is assigned {[*self._states]} (epoch {self._generation})")
            self._listener.on_partitions_assigned(self._in_order())
        self._moved.set()
        return bool(lost)

    async def _sleep(self) -> None:
        """Until the next heartbeat, or the news that it is a member no longer."""
        with suppress(TimeoutError):
            async with asyncio.timeout(HEARTBEAT_S):
                await self._rebalancing.wait()
        self._rebalancing.clear()
