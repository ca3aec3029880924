"""The Kafka side of a lane that only forwards: its partition is beyond those of the deployment."""

import logging
from collections.abc import Callable, Sequence

from answerbus.topics import LEDGER
from services.worker.adapters.kafka.shard import KafkaShard, Names
from services.worker.lane.context import LaneContext
from services.worker.ports.kafka import OutRecord, ReadProgress, Shard, StoredRecord

_log = logging.getLogger(__name__)


class ForwardingShard:
    """See ports.Shard.

    No workflow lives there, so that there is no past to read, and no record of the lane to write:
    the ledger may not even have such a partition. What is forwarded goes out in one transaction
    with the offset behind it (see outbox.Outbox), which a crash cannot tear apart.
    """

    def __init__(self, shard: Shard, partitions: int) -> None:
        self._shard, self._partitions = shard, partitions

    async def fence(self) -> None:
        await self._shard.fence()

    async def read_private(
        self, take: Callable[[StoredRecord], None], progress: ReadProgress
    ) -> None:
        """There is nothing."""

    async def stop_reading(self) -> None:
        await self._shard.stop_reading()

    async def commit(self, records: Sequence[OutRecord], offset: int | None) -> None:
        """See ports.Shard; but for what a lane writes into its own partition of the ledger."""
        await self._shard.commit(
            [record for record in records if not self._is_of_lane(record)], offset
        )

    async def close(self) -> None:
        await self._shard.close()

    def _is_of_lane(self, record: OutRecord) -> bool:
        place = record.partition
        return record.topic is LEDGER and place is not None and place >= self._partitions


def shards_of(
    names: Names, context: LaneContext, on_closed: Callable[[], None]
) -> Callable[[], Shard]:
    """A factory of the shard of a lane, called each time it is opened; see KafkaShard."""
    alone = dict[str, float]()  # known to the next shard of the lane, too
    clock, partitions = context.clock, context.partitions
    if names.partition < partitions:
        tools = context.runs.tools
        return lambda: KafkaShard(names, clock, tools.unavailable, on_closed, alone)
    _log.warning(
        "partition %d of requests is beyond the %d of this deployment: its records are "
        "forwarded to their owners; `answerbus topics move` changes the number",
        names.partition,
        partitions,
    )
    return lambda: ForwardingShard(KafkaShard(names, clock, alone=alone), partitions)
