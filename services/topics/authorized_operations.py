"""The operations that Kafka permits us on topics and the cluster, from its metadata (KIP-430).

aiokafka lacks this version of the call; its structures are written down here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import TopicAuthorizationFailedError
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Array, Boolean, Int16, Int32, Schema, String

from services.topics.rights.roles import Operation

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
class Authorized:
    """Operations by topic, and on the cluster; None where Kafka does not tell.

    It tells nothing of topics that are not there, and of those that we may not describe no more
    than that.
    """

    topics: Mapping[str, frozenset[Operation] | None]
    hidden: frozenset[str]
    cluster: frozenset[Operation] | None

    def on_topic(self, topic: str, operation: Operation) -> bool | None:
        """Whether an operation is allowed; None where Kafka does not tell."""
        if topic in self.hidden:
            return False if operation in _INCLUDE_DESCRIBE else None
        granted = self.topics.get(topic)
        return None if granted is None else operation in granted


async def authorized_operations(client: AIOKafkaClient, topics: Sequence[str]) -> Authorized:
    """Ask a broker. Raises KafkaError."""
    answer: Any = await client.send(client.get_random_node(), _Metadata(topics))
    response = answer.to_object()
    there = {topic["name"]: _operations(topic) for topic in response["topics"] if not _error(topic)}
    hidden = (topic["name"] for topic in response["topics"] if _error(topic) == _FORBIDDEN)
    return Authorized(there, frozenset(hidden), _operations(response))


def _error(response: Mapping[str, Any]) -> int:
    code: int = response["error_code"]
    return code


def _operations(response: Mapping[str, Any]) -> frozenset[Operation] | None:
    bits: int = response["operations"]
    if bits == _NOT_TOLD:
        return None
    return frozenset(operation for operation, number in _BITS.items() if bits >> number & 1)
