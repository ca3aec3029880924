"""Many results, or ends of time, at once, as after a while without a worker: in small writes."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from services.worker.lane import open_lane
from services.worker.lane.outbox import BATCH_BYTES_MAX
from services.worker.lane.state import signals
from services.worker.ports.kafka import OutRecord
from tests.unit.worker.builders import workflow_of
from tests.unit.worker.core.run_builders import actions, call, says
from tests.unit.worker.lane.fakes import FakeShard
from tests.unit.worker.lane.run_checks import finished
from tests.unit.worker.lane.run_world import RunStage, prompt_tool
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.lane.world import done, terminals, until

RUNS = 150
VALUE = "x" * 60_000


@pytest.mark.wide
@on_virtual_time
async def test_many_large_results_at_once_are_written_in_transactions_of_bounded_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes: list[int] = []
    commit = FakeShard.commit

    async def measured(self: FakeShard, records: Sequence[OutRecord], offset: int | None) -> None:
        sizes.append(sum(record.size_bytes for record in records))
        await commit(self, records, offset)

    monkeypatch.setattr(FakeShard, "commit", measured)

    held: list[Any] = []

    def hold(event: Any) -> list[Any]:
        held.append(event)
        return []

    stage = RunStage((actions(call()), actions(says("Well."))), hold)
    await stage.worker.open()
    for number in range(RUNS):
        stage.publish(f"r-{number}", workflow_id=workflow_of(0, number))
    await until(lambda: len(held) == RUNS, 25)
    for event in held:
        stage.tools.answer(event, {"kind": "ok", "value": VALUE})
    await until(lambda: done(stage.broker, stage.names))
    await finished(stage)

    assert set(terminals(stage.broker).values()) == {"result"}
    assert max(sizes) <= BATCH_BYTES_MAX


@on_virtual_time
async def test_many_calls_whose_time_is_over_at_once_end_in_writes_of_bounded_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lengths: list[int] = []

    def measured(*now: Any) -> Any:
        writing = signals.overdue(*now)
        lengths.append(len(writing.records) if writing else 0)
        return writing

    monkeypatch.setattr(open_lane, "overdue", measured)
    monkeypatch.setattr(signals, "OVERDUE_RECORDS_MAX", 10)

    stage = RunStage((actions(call()), actions(says("Well."))), lambda _: [])
    await stage.worker.open()
    for number in range(40):
        stage.publish(f"r-{number}", workflow_id=workflow_of(0, number))
    await until(lambda: len(stage.calls()) == 40, 25)
    await stage.crash()
    await asyncio.sleep(60)
    stage.tools.tooling = prompt_tool
    await stage.worker.open()
    await until(lambda: done(stage.broker, stage.names), 20)
    await finished(stage)

    assert set(terminals(stage.broker).values()) == {"result"}
    assert sum(lengths) >= 40
    assert max(lengths) < 15
