"""Detects workers of another consumer group under our topic prefix: both fence each other."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from aiokafka import TopicPartition
from aiokafka.structs import OffsetAndMetadata

from answerbus.client.bootstrap import AIOKafkaAdminClient
from answerbus.client.bounded import bounded
from answerbus.client.bus import START_TIMEOUT_S
from answerbus.topics import REQUESTS
from services.kafka.options import client_options, topic_name
from services.kafka.worker_groups import groups_of_workers, members_of
from services.settings.settings import KafkaSettings

LOOK_EVERY_S = 15.0
REMEMBERED_LOOKS = 40  # then a group that had no workers is asked about again

_log = logging.getLogger(__name__)


class OtherGroups:
    """`names` are those with workers, as of the last look."""

    def __init__(self, settings: KafkaSettings) -> None:
        self.names: tuple[str, ...] = ()
        self._settings = settings
        self._without_workers: set[str] = set()
        self._asking = asyncio.Lock()  # one request at a time, however many lanes open at once

    async def members_of(self, group: str) -> int:
        """How many members a group has now. Raises KafkaError, TimeoutError."""
        async with self._asking:
            return await bounded(self._members_of(group), START_TIMEOUT_S)

    async def offset_of(self, group: str, partition: int) -> int:
        """Its committed offset for the requests, 0 if none. Raises KafkaError, TimeoutError."""
        place = TopicPartition(topic_name(self._settings, REQUESTS), partition)
        async with self._asking:
            found = await bounded(self._offsets_of(group, place), START_TIMEOUT_S)
        return max(found[place].offset, 0) if place in found else 0

    async def run(self) -> None:
        """Look for ever; a look that fails is made again."""
        looks = 0
        while True:
            if looks % REMEMBERED_LOOKS == 0:
                self._without_workers = {self._settings.worker_group}
            try:
                await bounded(self._look(), START_TIMEOUT_S)
            except Exception as error:
                _log.debug("the groups cannot be listed: %s", type(error).__name__)
            looks += 1
            await asyncio.sleep(LOOK_EVERY_S)

    async def _look(self) -> None:
        topic = topic_name(self._settings, REQUESTS)
        async with self._admin() as admin:
            found = await groups_of_workers(admin, topic, known=self._without_workers)
        names = tuple(sorted(name for name, has_workers in found.items() if has_workers))
        self._without_workers |= {name for name, has_workers in found.items() if not has_workers}
        if names != self.names:
            self.names = names
            if names:
                _log.warning(
                    "workers of the consumer group %s read the same requests as ours, %s: two "
                    "groups cannot share a topic prefix, and one of them gets no lane",
                    ", ".join(names),
                    self._settings.worker_group,
                )

    async def _members_of(self, group: str) -> int:
        async with self._admin() as admin:
            return await members_of(admin, group)

    async def _offsets_of(
        self, group: str, place: TopicPartition
    ) -> Mapping[TopicPartition, OffsetAndMetadata]:
        async with self._admin() as admin:
            found: Mapping[TopicPartition, OffsetAndMetadata]
            found = await admin.list_consumer_group_offsets(group, partitions=[place])
            return found

    @asynccontextmanager
    async def _admin(self) -> AsyncIterator[AIOKafkaAdminClient]:
        admin = AIOKafkaAdminClient(**client_options(self._settings))
        try:
            await admin.start()
            yield admin
        finally:
            await admin.close()
