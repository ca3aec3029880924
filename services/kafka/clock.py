"""The controller's clock, read without writing, from the description of its quorum.

aiokafka lacks this call (DescribeQuorum, KIP-836); its structures are written down here.
"""

from typing import Any

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Int64,
    Schema,
    TaggedFields,
)

_API_KEY, _API_VERSION = 55, 1
_METADATA_TOPIC, _PARTITION = "__cluster_metadata", 0
_REPLICAS = CompactArray(
    ("id", Int32),
    ("end_offset", Int64),
    ("fetched_at_ms", Int64),
    ("caught_up_at_ms", Int64),
    ("tags", TaggedFields),
)


class _Answer(Response):  # type: ignore[misc]  # aiokafka ships no types
    API_KEY, API_VERSION = _API_KEY, _API_VERSION
    SCHEMA = Schema(
        ("error_code", Int16),
        (
            "topics",
            CompactArray(
                ("name", CompactString("utf-8")),
                (
                    "partitions",
                    CompactArray(
                        ("index", Int32),
                        ("error_code", Int16),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("high_watermark", Int64),
                        ("voters", _REPLICAS),
                        ("observers", _REPLICAS),
                        ("tags", TaggedFields),
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _Question(RequestStruct):  # type: ignore[misc]
    FLEXIBLE_VERSION = True
    API_KEY, API_VERSION, RESPONSE_TYPE = _API_KEY, _API_VERSION, _Answer
    SCHEMA = Schema(
        (
            "topics",
            CompactArray(
                ("name", CompactString("utf-8")),
                ("partitions", CompactArray(("index", Int32), ("tags", TaggedFields))),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _DescribeQuorum(Request[_Question]):  # type: ignore[misc]
    API_KEY = _API_KEY

    def build(self, request_struct_class: type[_Question]) -> _Question:
        return request_struct_class([(_METADATA_TOPIC, [(_PARTITION, {})], {})], {})


async def controller_time_ms(client: AIOKafkaClient) -> int | None:
    """Milliseconds since 1970 by the active controller; None if the cluster does not report it.

    It does not where the call is not known, or where we may not describe the cluster.
    """
    try:
        answer: Any = await client.send(client.get_random_node(), _DescribeQuorum())
    except KafkaError:
        return None
    for topic in answer.to_object()["topics"]:
        for partition in topic["partitions"]:
            for voter in partition["voters"]:
                if voter["id"] == partition["leader"] and voter["fetched_at_ms"] > 0:
                    fetched_at_ms: int = voter["fetched_at_ms"]
                    return fetched_at_ms
    return None
