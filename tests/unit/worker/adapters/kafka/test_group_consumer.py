"""The worker's consumer waits for records longer than FastStream lets it."""

import asyncio
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from aiokafka import ConsumerRebalanceListener
from aiokafka.client import ConnectionGroup
from aiokafka.conn import CloseReason
from aiokafka.errors import RequestTimedOutError
from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.group import HeartbeatRequest, JoinGroupRequest
from aiokafka.protocol.metadata import MetadataResponse_v1

from answerbus.client import bootstrap
from answerbus.client.records.consumer import RecordConsumer
from services.worker.adapters.kafka import group_consumer
from services.worker.adapters.kafka.group_consumer import POLL_MS, PROMPT_S, WatchedConsumer
from services.worker.adapters.kafka.read_monitor import InstanceIdTaken, ReadMonitor
from services.worker.adapters.kafka.subscription import REST_MS


@pytest.mark.parametrize(("asked_ms", "wait_ms"), [(REST_MS, POLL_MS), (2 * POLL_MS, 2 * POLL_MS)])
async def test_a_poll_waits_for_long(asked_ms: int, wait_ms: int) -> None:
    async def polled(*_: Any, timeout_ms: int, **__: Any) -> dict[Any, Any]:
        assert timeout_ms == wait_ms
        return {}

    monitor = ReadMonitor()
    consumer = WatchedConsumer(read_monitor=monitor, enable_auto_commit=False)
    consumer._closed = True  # it is not started, so that stopping it would wait for its group
    with mock.patch.object(RecordConsumer, "getmany", side_effect=polled):
        assert await consumer.getmany(timeout_ms=asked_ms) == {}

    assert monitor.polled_at is not None


async def test_no_broker_that_is_silent_is_waited_for_but_by_those_who_join(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The group moves to another coordinator; to join it may take as long as a rebalance."""
    monkeypatch.setattr(group_consumer, "PROMPT_S", 0.05)
    consumer = WatchedConsumer(read_monitor=ReadMonitor(), enable_auto_commit=False)
    consumer._closed = True
    client: Any = consumer._client
    closed: list[Any] = []
    node = (1, ConnectionGroup.COORDINATION)

    def close(*, reason: CloseReason) -> None:
        closed.append(reason)

    client._conns[node] = SimpleNamespace(close=close)

    async def silent(*_: object, **__: object) -> None:
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(consumer, "_ask", silent)
    monkeypatch.setattr(consumer, "_update", silent)
    heartbeat, lookup = HeartbeatRequest("g", 1, "m"), FindCoordinatorRequest("g", 0)
    for question, group in ((heartbeat, node[1]), (lookup, ConnectionGroup.DEFAULT)):
        with pytest.raises(RequestTimedOutError):
            await client.send(1, question, group=group)
    assert closed == [CloseReason.CONNECTION_TIMEOUT]  # that of the heartbeat
    assert not await client._metadata_update(client.cluster, [])
    joining = asyncio.create_task(client.send(1, "to join", group=node[1]))
    done, _ = await asyncio.wait([joining], timeout=0.2)
    joining.cancel()
    client._conns.clear()
    assert not done


async def test_a_worker_whose_static_id_another_has_taken_says_so_and_does_not_join_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Or they would put each other out for ever."""
    monitor = ReadMonitor()
    consumer = WatchedConsumer(
        read_monitor=monitor, enable_auto_commit=False, group_id="g", group_instance_id="one"
    )
    listener = mock.Mock(spec=ConsumerRebalanceListener)
    consumer._subscription.subscribe({"t"}, listener=listener)
    asked: list[Any] = []

    async def fenced(_node: int, request: Any, **_: object) -> Any:
        asked.append(request)
        return SimpleNamespace(error_code=group_consumer.FENCED_INSTANCE_ID)

    monkeypatch.setattr(consumer, "_ask", fenced)
    joining = JoinGroupRequest("g", 1, 1, "m", "one", "consumer", [])
    for request in (HeartbeatRequest("g", 1, "m"), joining):
        with pytest.raises(RuntimeError, match=r"kafka.group_instance_id"):
            await consumer._client.send(1, request)
    with mock.patch.object(RecordConsumer, "getmany"), pytest.raises(InstanceIdTaken):
        await consumer.getmany(timeout_ms=10)

    (heartbeat,) = asked
    listener.on_partitions_assigned.assert_called_once_with(())
    assert heartbeat.prepare({heartbeat.API_KEY: (0, 4)}).to_object() == {
        "group": "g",
        "generation_id": 1,
        "member_id": "m",
        "group_instance_id": "one",
    }
    assert monitor.beyond_recovery(0.0, 0.0, 0.0) is None, "a new consumer would join"

    consumer._closed = True
    await consumer._client.send(1, HeartbeatRequest("g", 1, "m"))
    listener.on_partitions_assigned.assert_called_once()  # now it would end lanes of a successor


async def test_a_broker_that_cannot_be_connected_to_is_known_though_a_request_was_cut_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Metadata are asked of another then."""

    async def silent(*_: object, **__: object) -> None:
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr("aiokafka.client.create_conn", silent)
    assert bootstrap.OVERDUE_S < PROMPT_S
    for name, part_s in {"OVERDUE_S": 0.05, "CONNECT_S": 0.1}.items():
        monkeypatch.setattr(bootstrap, name, part_s)
    monkeypatch.setattr(group_consumer, "PROMPT_S", 0.1)
    consumer = WatchedConsumer(read_monitor=ReadMonitor(), enable_auto_commit=False)
    consumer._closed = True
    client: Any = consumer._client
    client.cluster.update_metadata(MetadataResponse_v1([(1, "a", 1, None)], 1, []))
    for _ in range(2):  # the second time it is waited for longer
        monkeypatch.setattr(bootstrap, "_failed_at", failed := dict[str, float]())
        assert not await client._metadata_update(client.cluster, [])
        assert [*failed] == ["a:1"]
