"""Whose transaction is open in a partition, from its leader and the transactions' coordinators.

aiokafka lacks DescribeProducers and ListTransactions; their structures are written down here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiokafka import TopicPartition
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

from answerbus.client.bootstrap import AIOKafkaClient
from answerbus.client.bounded import bounded, close
from answerbus.client.bus import START_TIMEOUT_S

_DESCRIBE_PRODUCERS, _LIST_TRANSACTIONS = 61, 66
_TEXT, _TAGS = CompactString("utf-8"), ("tags", TaggedFields)
_NONE = -1


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """`id` is None where this user may not see it (it wants Describe on the transactional id)."""

    producer: int
    epoch: int
    start: int  # offset of its first record in the partition
    id: str | None

    def __str__(self) -> str:
        named = f"transactional id {self.id}" if self.id else "a transactional id we may not see"
        return f"{named}, producer id {self.producer}, epoch {self.epoch}, from offset {self.start}"


class _Producers(Response):  # type: ignore[misc]  # aiokafka ships no types
    API_KEY, API_VERSION = _DESCRIBE_PRODUCERS, 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            CompactArray(
                ("name", _TEXT),
                (
                    "partitions",
                    CompactArray(
                        ("number", Int32),
                        ("error_code", Int16),
                        ("error_message", _TEXT),
                        (
                            "producers",
                            CompactArray(
                                ("producer_id", Int64),
                                ("producer_epoch", Int32),
                                ("last_sequence", Int32),
                                ("last_timestamp", Int64),
                                ("coordinator_epoch", Int32),
                                ("start_offset", Int64),
                                _TAGS,
                            ),
                        ),
                        _TAGS,
                    ),
                ),
                _TAGS,
            ),
        ),
        _TAGS,
    )


class _DescribeProducersStruct(RequestStruct):  # type: ignore[misc]
    FLEXIBLE_VERSION, RESPONSE_TYPE = True, _Producers
    API_KEY, API_VERSION = _DESCRIBE_PRODUCERS, 0
    SCHEMA = Schema(
        ("topics", CompactArray(("name", _TEXT), ("partitions", CompactArray(Int32)), _TAGS)),
        _TAGS,
    )


class _DescribeProducers(Request[_DescribeProducersStruct]):  # type: ignore[misc]
    API_KEY = _DESCRIBE_PRODUCERS

    def __init__(self, place: TopicPartition) -> None:
        self._place = place

    def build(self, request_struct_class: type[_DescribeProducersStruct]) -> Any:
        return request_struct_class([(self._place.topic, [self._place.partition], {})], {})


class _Transactions(Response):  # type: ignore[misc]
    API_KEY, API_VERSION = _LIST_TRANSACTIONS, 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("unknown_states", CompactArray(_TEXT)),
        (
            "transactions",
            CompactArray(("id", _TEXT), ("producer_id", Int64), ("state", _TEXT), _TAGS),
        ),
        _TAGS,
    )


class _ListTransactionsStruct(RequestStruct):  # type: ignore[misc]
    FLEXIBLE_VERSION, RESPONSE_TYPE = True, _Transactions
    API_KEY, API_VERSION = _LIST_TRANSACTIONS, 0
    SCHEMA = Schema(("states", CompactArray(_TEXT)), ("producers", CompactArray(Int64)), _TAGS)


class _ListTransactions(Request[_ListTransactionsStruct]):  # type: ignore[misc]
    API_KEY = _LIST_TRANSACTIONS

    def __init__(self, producer: int) -> None:
        self._producer = producer

    def build(self, request_struct_class: type[_ListTransactionsStruct]) -> Any:
        return request_struct_class([], [self._producer], {})


async def first_open_transaction(
    options: Mapping[str, Any], place: TopicPartition
) -> OpenTransaction | None:
    """The one that holds readers back. Raises KafkaError, TimeoutError, or what a network does."""
    client = AIOKafkaClient(**options)
    try:
        return await bounded(_first(client, place), START_TIMEOUT_S)
    finally:
        await close(client.close())


async def _first(client: AIOKafkaClient, place: TopicPartition) -> OpenTransaction | None:
    await client.bootstrap()
    client.set_topics([place.topic])
    await client.force_metadata_update()
    leader = client.cluster.leader_for_partition(place)
    answer = await client.send(leader, _DescribeProducers(place))
    found = [
        (start, producer, epoch)
        for _, partitions, _ in answer.topics
        for _, _, _, producers, _ in partitions
        for producer, epoch, _, _, _, start, _ in producers
        if start != _NONE
    ]
    if not found:
        return None
    start, producer, epoch = min(found)
    return OpenTransaction(producer, epoch, start, await _id_of(client, producer))


async def _id_of(client: AIOKafkaClient, producer: int) -> str | None:
    """Each broker knows the transactions that it coordinates; one that is away is skipped."""
    for broker in client.all_brokers():
        try:
            answer = await client.send(broker.nodeId, _ListTransactions(producer))
        except KafkaError:
            continue
        for id_, _, _, _ in answer.transactions:
            return str(id_)
    return None
