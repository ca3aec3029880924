"""Finds the consumer groups whose workers read the requests topic."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata
from aiokafka.errors import GroupAuthorizationFailedError, for_code

WORKER_CLIENT = "answerbus-worker"
"""The client id of a worker's consumer; other consumers may read the topic as they like."""

_GROUPS_AT_ONCE = 20  # asked about side by side


async def members_of(admin: AIOKafkaAdminClient, group: str) -> int:
    """How many members a group has now. Raises KafkaError."""
    return len((await _described(admin, group))["members"])


async def groups_of_workers(
    admin: AIOKafkaAdminClient, topic: str, *, known: Iterable[str] = ()
) -> Mapping[str, bool]:
    """All groups of consumers but those that are known: whether workers in them read the topic.

    Raises KafkaError.
    """
    listed = {name for name, *kind in await admin.list_consumer_groups() if "consumer" in kind}
    group_ids = sorted(listed - set(known))
    described = [
        found
        for start in range(0, len(group_ids), _GROUPS_AT_ONCE)
        for found in await _visible(admin, group_ids[start : start + _GROUPS_AT_ONCE])
    ]
    return {
        found["group"]: any(_is_worker(member, topic) for member in found["members"])
        for found in described
        if found["members"]  # one without members may get some
    }


async def _visible(admin: AIOKafkaAdminClient, groups: list[str]) -> list[Mapping[str, Any]]:
    """Those of the groups that we have a right to see."""
    found = await asyncio.gather(*(_if_visible(admin, group) for group in groups))
    return [group for group in found if group is not None]


async def _if_visible(admin: AIOKafkaAdminClient, group: str) -> Mapping[str, Any] | None:
    try:
        return await _described(admin, group)
    except GroupAuthorizationFailedError:
        return None


async def _described(admin: AIOKafkaAdminClient, group: str) -> Mapping[str, Any]:
    """One group as its coordinator knows it. Raises KafkaError.

    One question for each: aiokafka reads the third version of the answer as the second, without the
    last field of each group, so that it would read a second group from the wrong byte on. Nor does
    it look at errors: a coordinator that moves would seem to have a group without members.
    """
    (answer,) = await admin.describe_consumer_groups([group])
    (found,) = answer.to_object()["groups"]
    if found["error_code"]:
        raise for_code(found["error_code"])(group)
    described: Mapping[str, Any] = found
    return described


def _is_worker(member: Mapping[str, Any], topic: str) -> bool:
    if member["client_id"] != WORKER_CLIENT:
        return False
    try:
        metadata = ConsumerProtocolMemberMetadata.decode(member["member_metadata"])
    except (ValueError, TypeError, UnicodeDecodeError):
        return False  # it joins just now
    return topic in metadata.subscription
