"""The consumer group: members, sessions, generations, and eager rebalances."""

import asyncio
import random
from typing import TYPE_CHECKING

from aiokafka.errors import CommitFailedError

from tests.simulation.boundary import Boundary
from tests.simulation.cluster import Cluster
from tests.simulation.process import OUTSIDE, Process

if TYPE_CHECKING:
    from tests.simulation.consumer import SimConsumer

SESSION_S = 10.0
HEARTBEAT_S = 2.0
REBALANCE_S_MAX = 15.0
ROUND_S = 0.05  # how long a complete round waits for one more

# A generation, and the partitions that it gives; None for one who is to join again.
Round = asyncio.Future[tuple[int, list[int]] | None]


class Group:
    """The coordinator's side; everything here happens outside of all processes."""

    def __init__(
        self, cluster: Cluster, partitions: int, boundary: Boundary, chance: random.Random
    ) -> None:
        self.generation = 0
        self.boundary = boundary
        self.members: list[SimConsumer] = []
        self.owners: dict[int, SimConsumer] = {}
        self._cluster = cluster
        self._partitions = partitions
        self._chance = chance
        self._joined: dict[SimConsumer, Round] = {}
        self._is_rebalancing = False
        self._rounds = 0
        self._reshuffled = chance.choice((0.0, 0.3, 0.9))  # how little sticky assignments are

    def join(self, member: "SimConsumer", answer: Round) -> None:
        """A member wants a part; everyone is to join again."""
        if member not in self._cluster.consumers:
            return  # it has left since
        if member not in self.members:
            self.members.append(member)
        self._joined[member] = answer
        self.rebalance()
        self._look()

    def leave(self, member: "SimConsumer") -> None:
        """A member goes."""
        self._send_off(member)
        if member in self.members:
            self.members.remove(member)
            self.rebalance()
            self._look()

    def rebalance(self) -> None:
        """Ask all to join again; those who do not in time are left out."""
        if self._is_rebalancing:
            return
        self._is_rebalancing = True
        self._rounds += 1
        _later(REBALANCE_S_MAX, self._end_round, self._rounds)
        for member in self.members:
            if member not in self._joined:
                self._begin_rebalance(member)

    def lose_touch(self, process: Process) -> None:
        """The process was frozen, killed or cut off; it has a session to come back."""
        _later(SESSION_S, self._expire, process, process.absences)

    def hear_again(self, process: Process) -> None:
        """It is back, and is told if it is a member no longer."""
        for consumer in self._cluster.consumers:
            if consumer.process is process and consumer not in self.members:
                self._begin_rebalance(consumer)

    def commit(self, member: "SimConsumer", generation: int, partition: int, offset: int) -> None:
        """Take an offset, if it comes from a member of this generation."""
        if member not in self.members or generation != self.generation:
            raise CommitFailedError(f"generation {generation} of {self.generation}")
        self._cluster.offsets[partition] = offset
        self.boundary.proved(member.process, partition)

    def _expire(self, process: Process, absence: int) -> None:
        if process.is_well or process.absences != absence:
            return
        if self._cluster.is_away:
            _later(SESSION_S, self._expire, process, absence)
            return
        for member in [member for member in self.members if member.process is process]:
            self._cluster.timeline.tell("its session has expired", who=process.name)
            self.leave(member)

    def _send_off(self, member: "SimConsumer") -> None:
        """A process that waits for a part, and is a member no longer, is to join again."""
        answer = self._joined.pop(member, None)
        if answer and not answer.done():
            answer.set_result(None)

    def _begin_rebalance(self, member: "SimConsumer") -> None:
        _later(self._chance.uniform(0, HEARTBEAT_S), self._tell, member)

    def _tell(self, member: "SimConsumer") -> None:
        process = member.process
        if process.is_dead:
            return
        if not self._cluster.reaches(process):
            _later(HEARTBEAT_S, self._tell, member)
            return
        process.call(member.begin_rebalance)

    def _look(self) -> None:
        if self._is_rebalancing and all(member in self._joined for member in self.members):
            _later(ROUND_S, self._complete, self._rounds)

    def _complete(self, number: int) -> None:
        if number == self._rounds and all(member in self._joined for member in self.members):
            self._end_round(number)

    def _end_round(self, number: int) -> None:
        if number != self._rounds or not self._is_rebalancing:
            return
        self._is_rebalancing = False
        for late in [member for member in self.members if member not in self._joined]:
            self._cluster.timeline.tell("did not join in time", who=late.process.name)
            self.members.remove(late)
            self._begin_rebalance(late)
        self.generation += 1
        shares = self._assign()
        joined, self._joined = self._joined, {}
        for member, answer in joined.items():
            if not answer.done():
                answer.set_result((self.generation, shares[member]))

    def _assign(self) -> dict["SimConsumer", list[int]]:
        """Sticky, mostly: what moves is what must."""
        shares: dict[SimConsumer, list[int]] = {member: [] for member in self.members}
        if not shares:
            return shares
        most = -(-self._partitions // len(shares))
        loose = []
        for partition in range(self._partitions):
            owner = self.owners.get(partition)
            kept = owner in shares and self._chance.random() > self._reshuffled
            if owner is not None and kept and len(shares[owner]) < most:
                shares[owner].append(partition)
            else:
                loose.append(partition)
        for partition in loose:
            fewest = min(len(share) for share in shares.values())
            takers = [member for member, share in shares.items() if len(share) == fewest]
            shares[self._chance.choice(takers)].append(partition)
        self.owners = {p: member for member, share in shares.items() for p in share}
        return shares


def _later(delay_s: float, what: object, *args: object) -> None:
    asyncio.get_running_loop().call_later(delay_s, what, *args, context=OUTSIDE)  # type: ignore[arg-type]
