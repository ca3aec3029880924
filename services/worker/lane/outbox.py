"""Group commit: the records of many requests go out in one fenced transaction after another."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from answerbus.client.bounded import bounded, was_cancelled
from answerbus.client.diagnosis import describe_error_for_log
from services.worker.ports.kafka import Outgoing, OutRecord, RecordTooLarge, Shard
from services.worker.ports.lane import LaneLost
from services.worker.ports.observer import Observer, Observers
from services.worker.tasks.fair_timeout import wait_fairly
from services.worker.tasks.loop_time import loop_time

LINGER_S = 0.01  # between transactions; a broker refuses a faster successor for 20 ms
LINGER_S_MAX = 0.05
CALLING_AT_LINGER = 100  # calls in flight of a worker; with more of them it lingers longer
OFFSET_EVERY_S = 0.25  # two more requests to the broker; what is closed is known without it
BATCH_BYTES_MAX = 8 * 1024 * 1024
BATCH_BYTES_MIN = 64 * 1024  # is sent in one go: brokers throttle only what comes after
BATCH_RECORDS_MAX = 5_000
COMMIT_TIMEOUT_S = 10.0


@dataclass(slots=True)
class _Write:
    records: Sequence[Outgoing]
    offset: int | None
    size_bytes: int
    done: asyncio.Future[float]
    is_last: bool = False  # for now: the offset must not wait for another
    apart: bool = False


@dataclass(slots=True)
class BatchBytes:
    """How large the transactions of one lane may be, also when it opens again.

    One that took too long is given up, and all of it is written again. Brokers that throttle us
    count both, so that transactions of the same size would never end. One of twice the size takes
    about twice as long there.
    """

    limit: int = BATCH_BYTES_MAX

    def committed(self, size: int, took_s: float) -> None:
        if 2 * size > self.limit and 4 * took_s < COMMIT_TIMEOUT_S:
            self.limit = min(2 * self.limit, BATCH_BYTES_MAX)

    def timed_out(self, size: int) -> None:
        self.limit = max(size // 2, BATCH_BYTES_MIN)


def linger_s(calling: int) -> float:
    """Seconds between the transactions of a lane, while its worker has so many calls in flight.

    Each transaction costs the same, and with many calls in flight more writes can share it.
    """
    return min(LINGER_S * max(1.0, calling / CALLING_AT_LINGER), LINGER_S_MAX)


class Outbox:
    """The queue of writes of one lane and the one task that commits them.

    Writes are made whole by their callers, account record included, so that any prefix of them is
    consistent; of ledger records with one key only the last of a batch is sent.
    """

    def __init__(
        self,
        shard: Shard,
        on_lost: Callable[[BaseException], None],
        observer: Observer | None = None,
        offset_every_s: float = OFFSET_EVERY_S,
        batch_bytes: BatchBytes | None = None,
        linger: Callable[[], float] = lambda: LINGER_S,
    ) -> None:
        """`linger` gives the seconds between two transactions."""
        self._shard = shard
        self._batch_bytes = batch_bytes or BatchBytes()
        self._observer = observer or Observers()
        self._on_lost = on_lost
        self._linger = linger
        self._writes: deque[_Write] = deque()
        self._awake = asyncio.Event()
        self._lost = False
        self._offset: int | None = None  # the last that may be committed
        self._offset_committed: int | None = None
        self._offset_due_at = 0.0
        self._offset_every_s = offset_every_s
        self._task = asyncio.create_task(self._run())
        self._closing: asyncio.Task[None] | None = None
        self.backlog_bytes = 0  # of what is queued or being committed

    def put(
        self, records: Sequence[Outgoing], offset: int | None, *, apart: bool = False
    ) -> asyncio.Future[float]:
        """Queue a write. The future gives the loop time at which its commit began.

        It raises LaneLost if the commit is not known to have happened. The offset may be committed
        a little later than the records, or not at all where a later one is. What is `apart` shares
        no transaction with writes before it: a spend that is taken back in the transaction that
        makes it would have an Attempt, and no record of the ledger that shows it.
        """
        size = sum(record.size_bytes for record in records)
        return self._put(_Write(records, offset, size, _future(), apart=apart))

    def _put(self, write: _Write) -> asyncio.Future[float]:
        if self._lost:
            self._fail([write])
            return write.done
        self._writes.append(write)
        self.backlog_bytes += write.size_bytes
        self._awake.set()
        return write.done

    async def close(self) -> None:
        """Stop committing; what is queued is lost, what is being committed may or may not be.

        Nothing waits for this outbox from the first moment on, and once begun the closing goes on
        to its end, also if the caller is cancelled.
        """
        self._lost = True
        self._fail(self._writes)
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        """A library may swallow the cancellation of a commit: then the loop ends by itself."""
        self._task.cancel()
        await asyncio.wait([self._task], timeout=COMMIT_TIMEOUT_S)
        with suppress(Exception):  # else each who closes it later would get this error again
            await bounded(self._shard.close(), COMMIT_TIMEOUT_S)

    async def flush(self) -> None:
        """Wait until everything queued so far is committed or lost, and the offset with it."""
        await asyncio.wait([self._put(_Write((), None, 0, _future(), is_last=True))])

    async def _run(self) -> None:
        batch: list[_Write] = []
        try:
            while not self._lost:
                await self._something_to_do()
                batch, began = self._next_batch(), loop_time()
                await bounded(self._commit(batch), COMMIT_TIMEOUT_S, wait_fairly)
                self._committed(batch, began)
                await asyncio.sleep(self._linger())
        except BaseException as error:
            self._lost = True
            if isinstance(error, TimeoutError):
                self._batch_bytes.timed_out(_size(batch))
            self._fail(batch, error)
            self._fail(self._writes, error)
            if was_cancelled(error):
                raise
            self._observer.lost()
            if self._closing is None:  # else its lane has another producer already
                self._on_lost(error)

    def _committed(self, batch: list[_Write], began: float) -> None:
        took_s = loop_time() - began
        self._observer.committed(took_s)
        self._batch_bytes.committed(_size(batch), took_s)
        for write in batch:
            self.backlog_bytes -= write.size_bytes
            if not write.done.done():
                write.done.set_result(began)

    async def _something_to_do(self) -> None:
        if self._offset == self._offset_committed:
            await self._awake.wait()
            return
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._offset_due_at):
                await self._awake.wait()

    async def _commit(self, batch: Sequence[_Write]) -> None:
        records, offset = _merged(batch), self._offset
        is_due = loop_time() >= self._offset_due_at or any(write.is_last for write in batch)
        if offset == self._offset_committed or not is_due:
            await self._shard.commit(records, None)
            return
        await self._shard.commit(records, offset)
        self._offset_committed, self._offset_due_at = offset, loop_time() + self._offset_every_s

    def _next_batch(self) -> list[_Write]:
        batch: list[_Write] = []
        size = records = 0
        while self._writes:
            write = self._writes[0]
            size += write.size_bytes
            records += len(write.records)
            is_full = size > self._batch_bytes.limit or records > BATCH_RECORDS_MAX
            if batch and (is_full or (write.apart and not batch[-1].apart)):
                return batch
            batch.append(self._writes.popleft())
            if write.offset is not None:
                self._offset = max(self._offset or 0, write.offset)
        self._awake.clear()
        return batch

    def _fail(
        self, writes: deque[_Write] | list[_Write], error: BaseException | None = None
    ) -> None:
        for write in writes:
            if not write.done.done():
                write.done.set_exception(LaneLost(*([lost_because(error)] if error else [])))
                write.done.exception()  # not every caller waits
        writes.clear()
        self.backlog_bytes = 0


def _size(batch: Sequence[_Write]) -> int:
    return sum(write.size_bytes for write in batch)


def lost_because(error: BaseException) -> str:
    """Why a producer can write no more, for the log."""
    if isinstance(error, RecordTooLarge):
        return f"{error}: `answerbus doctor` compares max.message.bytes, `topics apply` sets it"
    return describe_error_for_log(error)


def _merged(batch: Sequence[_Write]) -> list[OutRecord]:
    """The records in order, of each compacted key the last alone. Raises RecordTooLarge."""
    merged: list[OutRecord] = []
    later: set[tuple[str, bytes]] = set()
    for record in reversed([record for write in batch for record in write.records]):
        if "compact" in record.topic.cleanup:
            if (name := (record.topic.name, record.key)) in later:
                continue
            later.add(name)
        merged.append(record.written())
    merged.reverse()
    if large := [it for it in merged if len(it.value or b"") > it.topic.record_bytes_max]:
        raise RecordTooLarge(*large)
    return merged


def _future() -> "asyncio.Future[float]":
    return asyncio.get_running_loop().create_future()
