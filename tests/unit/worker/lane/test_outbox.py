"""Many writes, few transactions: each is committed whole, or everyone who waits hears of it."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

import pytest

from answerbus.topics import LEDGER, RESULTS, RETRIES, Topic
from services.worker.lane.outbox import (
    BATCH_BYTES_MAX,
    BATCH_RECORDS_MAX,
    COMMIT_TIMEOUT_S,
    LINGER_S,
    LINGER_S_MAX,
    OFFSET_EVERY_S,
    BatchBytes,
    Outbox,
    linger_s,
)
from services.worker.ports.kafka import OutRecord, ReadProgress, StoredRecord
from services.worker.ports.lane import LaneLost
from tests.unit.worker.lane.fakes import Broker
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.lane.world import FakeProvider, Worker, context


def record(name: str, value: str = "v", topic: Topic = RESULTS) -> OutRecord:
    return OutRecord(topic, 0, name.encode(), value.encode(), [])


class NotingShard:
    """Notes what is committed; fails, or waits for a sign, where it is told to."""

    def __init__(self) -> None:
        self.committed: list[tuple[list[str], int | None]] = []
        self.fails_with: Exception | None = None
        self.goes_on = asyncio.Event()
        self.goes_on.set()
        self.closed = 0

    async def fence(self) -> None:
        raise AssertionError

    async def read_private(
        self, take: Callable[[StoredRecord], None], progress: ReadProgress
    ) -> None:
        raise AssertionError

    async def stop_reading(self) -> None:
        raise AssertionError

    async def commit(self, records: Sequence[OutRecord], offset: int | None) -> None:
        await self.goes_on.wait()
        await asyncio.sleep(0.005)
        if self.fails_with:
            raise self.fails_with
        self.committed.append(
            ([f"{r.key.decode()}={(r.value or b'').decode()}" for r in records], offset)
        )

    async def close(self) -> None:
        await asyncio.sleep(1)
        self.closed += 1


class Stage:
    def __init__(self) -> None:
        self.shard = NotingShard()
        self.losses: list[BaseException] = []
        self.outbox = Outbox(self.shard, self.losses.append)


@on_virtual_time
async def test_writes_share_a_transaction_and_learn_when_it_began() -> None:
    stage = Stage()
    began = asyncio.get_running_loop().time()
    waiting = [stage.outbox.put([record(str(n))], n) for n in range(3)]

    assert await asyncio.gather(*waiting) == [began] * 3
    assert stage.shard.committed == [(["0=v", "1=v", "2=v"], 2)]
    assert stage.outbox.backlog_bytes == 0

    again = await stage.outbox.put([record("3")], None)

    assert again - began >= LINGER_S
    assert stage.shard.committed[1:] == [(["3=v"], None)]
    await stage.outbox.close()


@pytest.mark.parametrize(
    ("calling", "expected"),
    [(0, LINGER_S), (100, LINGER_S), (250, 0.025), (1_000, LINGER_S_MAX), (9_000, LINGER_S_MAX)],
)
def test_a_busy_worker_lingers_longer(calling: int, expected: float) -> None:
    assert linger_s(calling) == pytest.approx(expected)


@on_virtual_time
async def test_a_lane_lingers_by_the_calls_of_its_worker() -> None:
    worker = Worker(Broker(), context(FakeProvider()))
    await worker.open()
    outbox = worker.lane.opened.outbox
    worker.context.slots.calling = 1_000

    began = [await outbox.put([record(name)], None) for name in "ab"]

    assert began[1] - began[0] >= LINGER_S_MAX
    worker.context.slots.calling = 0
    await worker.drain()


@on_virtual_time
async def test_of_a_compacted_key_the_last_record_alone_is_sent() -> None:
    stage = Stage()
    stage.outbox.put([record("account:a", "1", LEDGER), record("r", "first")], 1)
    stage.outbox.put([record("r", "retry", RETRIES), record("r", "second")], 2)
    gone = OutRecord(RETRIES, 0, b"r", None, [])
    await stage.outbox.put([record("account:a", "2", LEDGER), gone], None)

    assert stage.shard.committed == [(["r=first", "r=second", "account:a=2", "r="], 2)]
    await stage.outbox.close()


@on_virtual_time
async def test_a_batch_has_a_limit_but_a_write_is_never_torn() -> None:
    stage = Stage()
    large = [record(str(n)) for n in range(BATCH_RECORDS_MAX + 1)]
    stage.outbox.put([record("a")], None)
    stage.outbox.put(large, None)
    await stage.outbox.put([record("z")], None)

    assert [len(names) for names, _ in stage.shard.committed] == [1, BATCH_RECORDS_MAX + 1, 1]
    await stage.outbox.close()


@on_virtual_time
async def test_a_failed_commit_is_the_end_for_all_who_wait_now_or_later() -> None:
    stage = Stage()
    stage.shard.fails_with = error = RuntimeError("fenced")
    first = stage.outbox.put([record("a")], 1)
    await asyncio.sleep(0)
    second = stage.outbox.put([record("b")], 2)

    results = await asyncio.gather(first, second, return_exceptions=True)
    assert [type(result) for result in results] == [LaneLost, LaneLost]
    assert stage.losses == [error]
    with pytest.raises(LaneLost):
        await stage.outbox.put([record("c")], 3)
    assert (stage.shard.committed, stage.outbox.backlog_bytes) == ([], 0)
    await stage.outbox.close()
    assert stage.losses == [error]


@on_virtual_time
async def test_what_took_too_long_is_written_in_smaller_transactions() -> None:
    """Where brokers throttle, larger ones may never end; answers of 0.1 MB wait here."""
    sizes: list[int] = []

    class ThrottledShard(NotingShard):
        async def commit(self, records: Sequence[OutRecord], offset: int | None) -> None:
            await asyncio.sleep(2 * COMMIT_TIMEOUT_S if len(records) > 2 else 0.005)
            sizes.append(len(records))

    batch_bytes, waiting = BatchBytes(), list(range(12))
    for _ in range(12):
        outbox = Outbox(ThrottledShard(), lambda _: None, batch_bytes=batch_bytes)
        await outbox.put([record("lane")], None)
        writes = [outbox.put([record(str(n), "x" * 100_000)], None) for n in waiting]
        ends = await asyncio.gather(*writes, return_exceptions=True)
        waiting = [n for n, end in zip(waiting, ends, strict=True) if isinstance(end, LaneLost)]
        await outbox.close()

    assert (waiting, max(sizes)) == ([], 2)
    while batch_bytes.limit < BATCH_BYTES_MAX:
        batch_bytes.committed(batch_bytes.limit, 0.1)


@on_virtual_time
async def test_transactions_grow_to_what_brokers_that_throttle_take_in_time() -> None:
    """They grew until one took too long, again and again, and each time the lane opened again."""

    class ThrottledShard(NotingShard):
        async def commit(self, records: Sequence[OutRecord], offset: int | None) -> None:
            await asyncio.sleep(sum(len(it.value or b"") for it in records) / 400_000)

    batch_bytes, waiting, losses = BatchBytes(), list(range(200)), list[BaseException]()
    while waiting:
        outbox = Outbox(ThrottledShard(), losses.append, batch_bytes=batch_bytes)
        writes = [outbox.put([record(str(n), "x" * 100_000)], None) for n in waiting]
        ends = await asyncio.gather(*writes, return_exceptions=True)
        waiting = [n for n, end in zip(waiting, ends, strict=True) if isinstance(end, LaneLost)]
        await outbox.close()

    assert len(losses) == 2, "with 8 MiB and with 4"


@on_virtual_time
async def test_a_commit_that_hangs_is_given_up() -> None:
    stage = Stage()
    stage.shard.goes_on.clear()
    began = asyncio.get_running_loop().time()
    with pytest.raises(LaneLost):
        await stage.outbox.put([record("a")], 1)

    assert asyncio.get_running_loop().time() - began == COMMIT_TIMEOUT_S
    assert [type(error) for error in stage.losses] == [TimeoutError]
    await stage.outbox.close()


@pytest.mark.parametrize("moment_s", [0.0, 0.001, 0.007, 0.02])
@on_virtual_time
async def test_closing_ends_every_wait_whatever_the_outbox_does(moment_s: float) -> None:
    """Asleep, committing, lingering: those who write while it closes hear of it too."""
    stage = Stage()
    waiting = [stage.outbox.put([record("a")], 1)]
    await asyncio.sleep(moment_s)
    waiting.append(stage.outbox.put([record("b")], 2))
    closing = asyncio.create_task(stage.outbox.close())
    await asyncio.sleep(0)
    waiting.append(stage.outbox.put([record("c")], 3))
    _, pending = await asyncio.wait(waiting, timeout=0.1)

    assert not pending
    assert [type(future.exception()) for future in waiting[1:]] == [LaneLost, LaneLost]
    await closing
    assert (stage.shard.closed, stage.losses) == (1, [])


@on_virtual_time
async def test_closing_goes_on_when_its_caller_is_cancelled_and_happens_once() -> None:
    stage = Stage()
    waiting = stage.outbox.put([record("a")], 1)
    closing = asyncio.create_task(stage.outbox.close())
    await asyncio.sleep(0.5)
    closing.cancel()
    await asyncio.wait([closing])

    assert (closing.cancelled(), stage.shard.closed) == (True, 0)
    await asyncio.gather(stage.outbox.close(), stage.outbox.close())
    assert stage.shard.closed == 1
    assert isinstance(waiting.exception(), LaneLost)


@on_virtual_time
async def test_a_writer_that_was_cancelled_does_not_take_its_write_back() -> None:
    stage = Stage()
    stage.outbox.put([record("a")], 1).cancel()
    await stage.outbox.flush()

    assert stage.shard.committed == [(["a=v"], 1)]
    await stage.outbox.close()


@on_virtual_time
async def test_what_is_not_yet_committed_counts_as_backlog() -> None:
    stage = Stage()
    stage.shard.goes_on.clear()
    stage.outbox.put([record("key", "value")], 1)
    await asyncio.sleep(0.1)
    last = stage.outbox.put([record("key", "value")], 1)

    assert stage.outbox.backlog_bytes == 2 * len("keyvalue")
    stage.shard.goes_on.set()
    await last
    assert stage.outbox.backlog_bytes == 0
    await stage.outbox.close()


@on_virtual_time
async def test_the_offset_is_written_now_and_then_and_by_itself_if_need_be() -> None:
    stage = Stage()
    for n in range(5):
        await stage.outbox.put([record(str(n))], n)
    assert [offset for _, offset in stage.shard.committed] == [0, None, None, None, None]

    await asyncio.sleep(2 * OFFSET_EVERY_S)
    assert stage.shard.committed[5:] == [([], 4)]
    await asyncio.sleep(10)
    assert len(stage.shard.committed) == 6, "what has not moved is not written again"
    await stage.outbox.close()


@on_virtual_time
async def test_an_offset_alone_makes_no_transaction_of_its_own_while_others_come() -> None:
    stage = Stage()
    await stage.outbox.put([record("a")], 1)
    await stage.outbox.put((), 2)
    await stage.outbox.flush()

    assert stage.shard.committed == [(["a=v"], 1), ([], None), ([], 2)]
    await stage.outbox.close()


@on_virtual_time
async def test_an_offset_is_never_ahead_of_the_records_that_it_stands_for() -> None:
    stage = Stage()
    large = [record(str(n)) for n in range(BATCH_RECORDS_MAX + 1)]
    stage.outbox.put([record("a")], 1)
    stage.outbox.put(large, 2)
    await stage.outbox.flush()

    assert stage.shard.committed[0] == (["a=v"], 1)
    assert [offset for _, offset in stage.shard.committed[1:]] == [None, 2]
    await stage.outbox.close()


@on_virtual_time
async def test_what_is_apart_shares_no_transaction_with_what_was_written_before() -> None:
    stage = Stage()
    stage.outbox.put([record("spend a")], None)
    stage.outbox.put([record("release a")], None, apart=True)
    stage.outbox.put([record("release b")], None, apart=True)
    stage.outbox.put([record("spend c")], None)
    await stage.outbox.put([record("release c")], None, apart=True)

    assert [names for names, _ in stage.shard.committed] == [
        ["spend a=v"],
        ["release a=v", "release b=v", "spend c=v"],
        ["release c=v"],
    ]
    await stage.outbox.close()


@on_virtual_time
async def test_a_commit_that_swallows_its_cancellation_keeps_no_outbox_open() -> None:
    """The loop of commits ends all the same, and with it the closing that waits for it."""

    class UncancellableShard(NotingShard):
        async def commit(self, records: Sequence[OutRecord], offset: int | None) -> None:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(1)

    shard = UncancellableShard()
    outbox = Outbox(shard, lambda _: None)
    outbox.put([record("a")], None)
    await asyncio.sleep(0.1)
    await outbox.close()

    assert shard.closed == 1
