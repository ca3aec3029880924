"""Settings of topics that an operator changes, once the broker shows them."""

import asyncio
from collections.abc import Mapping

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from answerbus.topics import Topic
from tests.integration.bus import Bus
from tests.integration.kafka_admin import kafka_admin

VISIBLE_S = 20.0


async def change_settings(bus: Bus, topics: Mapping[Topic, Mapping[str, str]]) -> None:
    """Give each topic these settings, and no others; wait until all are in force."""
    wanted = {bus.topic(topic): dict(settings) for topic, settings in topics.items()}
    async with kafka_admin(bus.bootstrap) as admin:
        await admin.alter_configs(
            [ConfigResource(ConfigResourceType.TOPIC, name, own) for name, own in wanted.items()]
        )
        async with asyncio.timeout(VISIBLE_S):
            while not await _are_shown(admin, wanted):
                await asyncio.sleep(0.05)


async def _are_shown(admin: AIOKafkaAdminClient, wanted: Mapping[str, Mapping[str, str]]) -> bool:
    asked = [ConfigResource(ConfigResourceType.TOPIC, name) for name in wanted]
    shown = {
        name: {entry[0]: entry[1] for entry in entries}
        for answer in await admin.describe_configs(asked)
        for _code, _text, _type, name, entries in answer.resources
    }
    return all(own.items() <= shown[name].items() for name, own in wanted.items())
