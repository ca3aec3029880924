"""Finds which rights of a role our user has on a broker, without side effects.

Some are among the operations that Kafka shows in metadata (KIP-430). aiokafka lacks this version
of the call; its structures are written down here.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from aiokafka.admin.config_resource import ConfigResourceType
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
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.group import HeartbeatRequest
from aiokafka.protocol.transaction import EndTxnRequest
from aiokafka.protocol.types import Array, Boolean, Int16, Int32, Schema, String

from answerbus.client.bootstrap import AIOKafkaClient
from answerbus.client.bounded import bounded, close
from answerbus.client.bus import START_TIMEOUT_S, Bus
from services.kafka.planning.rights import TOOLSET_DEFAULT, Operation, ResourceNames, Right
from services.settings.settings import KafkaSettings

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
_API_KEY, _API_VERSION = 3, 8
_TEXT = String("utf-8")
_NOT_TOLD = -(2**31)
_FORBIDDEN = TopicAuthorizationFailedError.errno
_INCLUDE_DESCRIBE: frozenset[Operation] = frozenset({"Read", "Write", "Alter", "Describe"})
_BITS: Mapping[Operation, int] = {  # Kafka's numbers of the operations
    "Read": 3,
    "Write": 4,
    "Create": 5,
    "Alter": 7,
    "Describe": 8,
    "DescribeConfigs": 10,
    "AlterConfigs": 11,
}


class _Answer(Response):  # type: ignore[misc]  # aiokafka ships no types
    API_KEY, API_VERSION = _API_KEY, _API_VERSION
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("brokers", Array(("id", Int32), ("host", _TEXT), ("port", Int32), ("rack", _TEXT))),
        ("cluster_id", _TEXT),
        ("controller_id", Int32),
        (
            "topics",
            Array(
                ("error_code", Int16),
                ("name", _TEXT),
                ("is_internal", Boolean),
                (
                    "partitions",
                    Array(
                        ("error_code", Int16),
                        ("number", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", Array(Int32)),
                        ("in_sync", Array(Int32)),
                        ("offline", Array(Int32)),
                    ),
                ),
                ("operations", Int32),
            ),
        ),
        ("operations", Int32),
    )


class _Question(RequestStruct):  # type: ignore[misc]
    API_KEY, API_VERSION, RESPONSE_TYPE = _API_KEY, _API_VERSION, _Answer
    SCHEMA = Schema(
        ("topics", Array(_TEXT)),
        ("may_create", Boolean),
        ("with_cluster_operations", Boolean),
        ("with_topic_operations", Boolean),
    )


class _Metadata(Request[_Question]):  # type: ignore[misc]
    API_KEY = _API_KEY

    def __init__(self, topics: Sequence[str]) -> None:
        self._topics = list(topics)

    def build(self, request_struct_class: type[_Question]) -> _Question:
        may_create, with_cluster_operations, with_topic_operations = False, True, True
        return request_struct_class(
            self._topics, may_create, with_cluster_operations, with_topic_operations
        )


@dataclass(frozen=True, slots=True)
class _Authorized:
    """Operations by topic, and on the cluster; None where Kafka does not say.

    It says nothing of topics that do not exist, and of those that we may not describe no more
    than that.
    """

    topics: Mapping[str, frozenset[Operation] | None]
    hidden: frozenset[str]
    cluster: frozenset[Operation] | None

    def on_topic(self, topic: str, operation: Operation) -> bool | None:
        """Whether an operation is allowed; None where Kafka does not say."""
        if topic in self.hidden:
            return False if operation in _INCLUDE_DESCRIBE else None
        granted = self.topics.get(topic)
        return None if granted is None else operation in granted


async def _authorized_operations(client: AIOKafkaClient, topics: Sequence[str]) -> _Authorized:
    """Ask a broker. Raises KafkaError."""
    answer: Any = await client.send(client.get_random_node(), _Metadata(topics))
    response = answer.to_object()
    there = {topic["name"]: _operations(topic) for topic in response["topics"] if not _error(topic)}
    hidden = (topic["name"] for topic in response["topics"] if _error(topic) == _FORBIDDEN)
    return _Authorized(there, frozenset(hidden), _operations(response))


def _error(response: Mapping[str, Any]) -> int:
    code: int = response["error_code"]
    return code


def _operations(response: Mapping[str, Any]) -> frozenset[Operation] | None:
    bits: int = response["operations"]
    if bits == _NOT_TOLD:
        return None
    return frozenset(operation for operation, number in _BITS.items() if bits >> number & 1)


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
    authorized = await _authorized_operations(client, names)
    found = [await _is_held(client, right, authorized, partitions) for right in rights]
    return dict(zip(rights, found, strict=True))


async def _is_held(
    client: AIOKafkaClient, right: Right, authorized: _Authorized, partitions: Sequence[int]
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
