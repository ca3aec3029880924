"""A tool server cannot fill the log of a worker with cards that are rejected."""

import pytest

from services.worker.core.run.known_tools import KnownTools
from tests.unit.worker.adapters.kafka.test_card_reader import (
    ORDERS,
    Consumer,
    Record,
    followed,
    reader_of,
)
from tests.unit.worker.lane.virtual import on_virtual_time


@on_virtual_time
async def test_many_rejected_cards_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    bus, known = Consumer({ORDERS.full_name(): [Record(b"orders", b"{}")] * 9}), KnownTools()
    reader = reader_of(bus, known)
    with followed(reader):
        await reader.until_read()
    assert sum(known.refusals.values()) == 9
    assert [it.partition(":")[0] for it in caplog.messages] == ["card of toolset orders rejected"]
