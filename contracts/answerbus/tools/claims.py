"""The records of calls that are done, as a server commits them to Kafka."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

from answerbus.tools.channel import Channel, ClaimLost
from answerbus.tools.core.positions import PartitionPositions, Position

RecordPlace = tuple[PartitionPositions, int]
"""Where the end of a record is marked: its partition's positions, and its offset."""


class Claims:
    """Which records are done, as they are committed: see `PartitionPositions`."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._partitions: dict[int, PartitionPositions] = {}
        self._lock = asyncio.Lock()
        self._marked = self._committed = 0

    def assigned(self, committed: Mapping[int, Position]) -> None:
        """These are the server's from now on, from what is committed."""
        for partition, at in committed.items():
            self._partitions[partition] = PartitionPositions(at.offset, at.text)

    async def revoked(self, partitions: Sequence[int]) -> None:
        """These go to another server when this returns: what is done is committed before."""
        with suppress(ClaimLost):  # the next server goes by what was committed before
            await self.commit()
        for partition in partitions:
            self._partitions.pop(partition, None)

    def begin(self, partition: int, offset: int, end: int) -> "PartitionPositions | None":
        """The partition of a record that is to be worked on; None if it was, or is another's."""
        positions = self._partitions.get(partition)
        return positions if positions and positions.begin(offset, end) else None

    def finish(self, positions: PartitionPositions, offset: int) -> None:
        """To be committed with the next commit."""
        positions.finish(offset)
        self._marked += 1

    async def claim(self, partition: int, places: Sequence[RecordPlace]) -> None:
        """Finish, and commit that: no other server works on it then. Raises ClaimLost."""
        positions, _ = places[-1]
        if self._partitions.get(partition) is not positions:
            raise ClaimLost
        for place in places:
            self.finish(*place)
        await self._commit_up_to(self._marked, partition, positions)

    async def commit(self) -> None:
        """Commit what is finished. Raises ClaimLost."""
        await self._commit_up_to(self._marked)

    async def _commit_up_to(
        self, mark: int, partition: int = -1, positions: PartitionPositions | None = None
    ) -> None:
        async with self._lock:
            committed = positions.committed if positions else self._committed
            if committed >= mark:
                return  # with the commit of another
            if positions and self._partitions.get(partition) is not positions:
                raise ClaimLost
            upto, partitions = self._marked, dict(self._partitions)
            await self._channel.commit(
                {number: found.position for number, found in partitions.items()}
            )
            self._committed = upto
            for found in partitions.values():
                found.committed = upto

    @property
    def pending(self) -> int:
        """The most that one partition has to do."""
        return max((found.pending for found in self._partitions.values()), default=0)
