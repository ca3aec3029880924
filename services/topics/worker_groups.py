"""Which consumer groups have workers that read the requests topic, as brokers know them."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata

WORKER_CLIENT = "answerbus-worker"
"""The client id of a worker's consumer; other consumers may read the topic as they like."""

_GROUPS_AT_ONCE = 20  # asked about side by side


async def members_of(admin: AIOKafkaAdminClient, group: str) -> int:
    """How many members a group has now. Raises KafkaError."""
    return sum(len(found["members"]) for found in await _described(admin, [group]))


async def groups_of_workers(
    admin: AIOKafkaAdminClient, topic: str, *, known: Iterable[str] = ()
) -> Mapping[str, bool]:
    """All groups of consumers but those that are known: whether workers in them read the topic.

    Raises KafkaError.
    """
    listed = {name for name, *kind in await admin.list_consumer_groups() if "consumer" in kind}
    asked = sorted(listed - set(known))
    described = [
        found
        for start in range(0, len(asked), _GROUPS_AT_ONCE)
        for found in await _described(admin, asked[start : start + _GROUPS_AT_ONCE])
    ]
    return {
        found["group"]: any(_is_worker(member, topic) for member in found["members"])
        for found in described
        if found["members"]  # one without members may get some
    }


async def _described(admin: AIOKafkaAdminClient, groups: list[str]) -> list[Mapping[str, Any]]:
    """One question for each group.

    aiokafka reads the third version of the answer as the second, without the last field of each
    group. What follows the first group would be read from the wrong byte on.
    """
    answers = await asyncio.gather(*(admin.describe_consumer_groups([name]) for name in groups))
    found: list[Any] = [answer.to_object() for parts in answers for answer in parts]
    return [group for answer in found for group in answer["groups"]]


def _is_worker(member: Mapping[str, Any], topic: str) -> bool:
    if member["client_id"] != WORKER_CLIENT:
        return False
    try:
        metadata = ConsumerProtocolMemberMetadata.decode(member["member_metadata"])
    except (ValueError, TypeError, UnicodeDecodeError):
        return False  # it joins just now
    return topic in metadata.subscription
