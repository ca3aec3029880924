"""The worker's consumer waits for records longer than FastStream lets it."""

from typing import Any
from unittest import mock

import pytest

from answerbus.client.records.consumer import RecordConsumer
from services.worker.adapters.kafka.group_consumer import POLL_MS, WatchedConsumer
from services.worker.adapters.kafka.read_monitor import ReadMonitor
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
