"""What a lane's transaction says of errors that its client gives without a name or a record."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka.errors import MessageSizeTooLargeError, TopicAuthorizationFailedError
from aiokafka.producer.message_accumulator import BatchBuilder

from answerbus.client.diagnosis import describe_error
from answerbus.topics import RESULTS, tool_calls
from services.worker.adapters.clock import BrokerClock
from services.worker.adapters.kafka import tool_topics
from services.worker.adapters.kafka.shard import KafkaShard, Names
from services.worker.ports.kafka import OutRecord, RecordTooLarge


class Producer:
    """Its user may not read the requests any more."""

    async def begin_transaction(self) -> None:
        pass

    async def send_offsets_to_transaction(self, *_: object) -> None:
        raise TopicAuthorizationFailedError


async def test_a_refused_offset_names_the_requests_topic() -> None:
    shard = KafkaShard(Names("acme", "acme.worker", 0, {}), BrokerClock())
    shard._producer = cast("Any", Producer())
    with pytest.raises(TopicAuthorizationFailedError) as raised:
        await shard.commit([], 7)
    assert "no right to the topic acme.requests.v1 " in describe_error(raised.value)


TAKES = 1_000  # bytes of a batch


class SmallTopic:
    """A producer whose broker takes small batches alone."""

    async def begin_transaction(self) -> None:
        pass

    def create_batch(self) -> BatchBuilder:
        return BatchBuilder(16_384, 0, is_transactional=1)

    async def send_batch(
        self, batch: BatchBuilder, _: str, **__: object
    ) -> "asyncio.Future[SimpleNamespace]":
        found = asyncio.get_running_loop().create_future()
        if batch.size() > TAKES:
            found.set_exception(MessageSizeTooLargeError())
        else:
            found.set_result(SimpleNamespace(timestamp_type=0))
        return found

    async def partitions_for(self, _: str) -> set[int]:
        return {0}

    async def send(self, *_: object, **__: object) -> "asyncio.Future[SimpleNamespace]":
        """To the topic of a toolset, which is silent."""
        return asyncio.get_running_loop().create_future()

    async def commit_transaction(self) -> None:
        pass


async def committed(alone: dict[str, float], *records: OutRecord) -> None:
    shard = KafkaShard(Names("acme", "g", 0, {}), BrokerClock(), alone=alone)
    shard._producer = cast("Any", SmallTopic())
    await shard.commit(records, None)


async def test_records_that_a_topic_does_not_take_are_found_in_the_next_transaction() -> None:
    """Of several in one batch it is not known which; alone they are all found to fit, or not."""
    small = [OutRecord(RESULTS, 0, b"k", b"v" * 400, []) for _ in range(3)]
    large = [OutRecord(RESULTS, 0, b"k", b"v" * size, []) for size in (2_000, 3_000)]
    alone = dict[str, float]()

    with pytest.raises(MessageSizeTooLargeError) as raised:
        await committed(alone, *small, *large)
    assert not isinstance(raised.value, RecordTooLarge)
    with pytest.raises(RecordTooLarge) as blamed:
        await committed(alone, *small, *large)
    assert blamed.value.records == (*large,)
    assert "larger than the topic results takes" in describe_error(blamed.value)
    await committed(alone, *small)
    with pytest.raises(MessageSizeTooLargeError):  # a minute later they share a batch again
        await committed(dict.fromkeys(alone, 0.0), *small)


async def test_a_record_is_found_too_large_also_beside_a_toolset_that_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tool_topics, "WRITE_S", 0.01)
    large = OutRecord(RESULTS, 0, b"k", b"v" * 2_000, [])
    with pytest.raises(RecordTooLarge) as blamed:
        await committed({}, large, OutRecord(tool_calls("orders"), None, b"k", b"v", []))
    assert blamed.value.records == (large,)
