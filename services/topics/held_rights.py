"""Finds which rights of a role our user has on a broker, without side effects."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, assert_never

from aiokafka.admin.config_resource import ConfigResourceType
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    KafkaError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
)
from aiokafka.protocol.admin import (
    AlterConfigsRequest,
    CreateTopicsRequest,
    DescribeGroupsRequest,
)
from aiokafka.protocol.group import HeartbeatRequest
from aiokafka.protocol.transaction import EndTxnRequest

from answerbus.client.bounded import bounded, close
from answerbus.client.bus import START_TIMEOUT_S, Bus
from services.settings.settings import KafkaSettings
from services.topics.authorized_operations import Authorized, authorized_operations
from services.topics.rights.roles import TOOLSET_DEFAULT, ResourceNames, Right

ASK_TIMEOUT_MS = 10_000
_NOBODY = ""  # no member of a group has this id
_NO_PRODUCER = -1
_REFUSALS = frozenset(
    error.errno
    for error in (
        ClusterAuthorizationFailedError,
        GroupAuthorizationFailedError,
        TopicAuthorizationFailedError,
        TransactionalIdAuthorizationFailed,
    )
)

Held = Mapping[Right, bool | None]
"""Whether each right is held; None where the broker does not say."""


def resource_names(
    kafka: KafkaSettings, app_group: str, toolset: str = TOOLSET_DEFAULT
) -> ResourceNames:
    """What this deployment calls things."""
    return ResourceNames(kafka.topic_prefix, kafka.worker_group, app_group, toolset)


async def held_rights(bus: Bus, rights: Sequence[Right], partitions: Sequence[int] = (0,)) -> Held:
    """Ask for all of them; of a prefix of transactional ids, for the ids of these lanes.

    Raises BusUnavailable.
    """
    client = AIOKafkaClient(bootstrap_servers=bus.servers, **bus.options)
    async with bus.connecting():
        try:
            return await bounded(_held(client, rights, partitions), START_TIMEOUT_S)
        finally:
            await close(client.close())


async def _held(client: AIOKafkaClient, rights: Sequence[Right], partitions: Sequence[int]) -> Held:
    await client.bootstrap()
    names = sorted({right.name for right in rights if right.resource == "topic"})
    authorized = await authorized_operations(client, names)
    found = [await _is_held(client, right, authorized, partitions) for right in rights]
    return dict(zip(rights, found, strict=True))


async def _is_held(
    client: AIOKafkaClient, right: Right, authorized: Authorized, partitions: Sequence[int]
) -> bool | None:
    match right.resource:
        case "topic" if right.operation == "Create":
            return await _may_create(client, right.name)
        case "topic":
            held = authorized.on_topic(right.name, right.operation)
            if held is None and right.operation == "AlterConfigs":
                return await _may_set(client, right.name)
            return held
        case "cluster":
            return None if authorized.cluster is None else right.operation in authorized.cluster
        case "group":
            return await _may_use_group(client, right)
        case "transactional_id":
            ids = [f"{right.name}{n}" for n in partitions] if right.is_prefix else [right.name]
            told_of = await asyncio.gather(*(_may_write_as(client, one) for one in ids))
            return _all(told_of)
        case _:
            assert_never(right.resource)


async def _may_create(client: AIOKafkaClient, topic: str) -> bool | None:
    """A broker judges a creation, and creates nothing."""
    question = CreateTopicsRequest([(topic, 1, 1, [], [])], ASK_TIMEOUT_MS, validate_only=True)
    answer = await _asked(client, question)
    return None if answer is None else _is_allowed(answer.topic_errors[0][1])


async def _may_set(client: AIOKafkaClient, topic: str) -> bool | None:
    """A broker judges a change of no setting, and changes nothing, also where no topic is."""
    nothing: list[Any] = [(ConfigResourceType.TOPIC, topic, [])]
    answer = await _asked(client, AlterConfigsRequest(nothing, validate_only=True))
    return None if answer is None else _is_allowed(answer.resources[0][0])


async def _may_use_group(client: AIOKafkaClient, right: Right) -> bool | None:
    """A heartbeat of no member, which wants Read; or a look, which wants Describe."""
    if right.operation == "Read":
        answer = await _asked(client, HeartbeatRequest(right.name, _NO_PRODUCER, _NOBODY))
        return None if answer is None else _is_allowed(answer.error_code)
    answer = await _asked(client, DescribeGroupsRequest([right.name]))
    return None if answer is None else _is_allowed(answer.groups[0][0])


async def _may_write_as(client: AIOKafkaClient, transactional_id: str) -> bool | None:
    """The end of a transaction that no producer has begun: it fences no producer."""
    question = EndTxnRequest(transactional_id, _NO_PRODUCER, _NO_PRODUCER, False)  # noqa: FBT003
    answer = await _asked(client, question)
    return None if answer is None else _is_allowed(answer.error_code)


async def _asked(client: AIOKafkaClient, question: Any) -> Any:
    """The answer; None from a broker that does not know the question."""
    try:
        return await client.send(client.get_random_node(), question)
    except (KafkaError, NotImplementedError):
        return None


def _is_allowed(error_code: int) -> bool:
    """Rights are judged first: any other error says that they are there."""
    return error_code not in _REFUSALS


def _all(held: Iterable[bool | None]) -> bool | None:
    found = list(held)
    if False in found:
        return False
    return None if None in found else True
