"""Calls of a client library end within their time, however it treats cancellations."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress

import pytest

from answerbus.client.bounded import CLEAN_UP_S, ClientCancelled, bounded, close, wait_for_end
from tests.unit.worker.lane.virtual import on_virtual_time, run


async def _answer() -> str:
    await asyncio.sleep(1)
    return "answer"


async def _ignores_cancellation() -> None:
    for _ in range(3):
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(20)


async def _cancels_itself() -> None:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


async def _fails() -> None:
    raise ConnectionError


def test_what_is_on_time_gives_its_result() -> None:
    assert run(bounded(_answer(), 2)) == "answer"


@on_virtual_time
async def test_what_fails_raises_its_error() -> None:
    with pytest.raises(ConnectionError):
        await bounded(_fails(), 2)


@pytest.mark.parametrize("work", [_answer, _ignores_cancellation])
def test_what_is_late_ends_at_the_limit_also_if_it_ignores_cancellation(
    work: Callable[[], Coroutine[None, None, object]],
) -> None:
    async def main() -> float:
        now = asyncio.get_running_loop().time
        began = now()
        with pytest.raises(TimeoutError):
            await bounded(work(), 0.5)
        took = now() - began
        await asyncio.sleep(200)
        return took

    assert run(main()) in {0.5, 0.5 + CLEAN_UP_S}


@on_virtual_time
async def test_a_cancellation_from_within_is_an_error_and_none_of_the_caller() -> None:
    with pytest.raises(ClientCancelled):
        await bounded(_cancels_itself(), 2)


def test_a_cancellation_from_outside_ends_the_work_too() -> None:
    async def main() -> list[str]:
        ended: list[str] = []

        async def work() -> None:
            try:
                await asyncio.sleep(10)
            finally:
                await asyncio.sleep(0.1)
                ended.append("cleaned up")

        caller = asyncio.create_task(bounded(work(), 20))
        await asyncio.sleep(1)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        return ended

    assert run(main()) == ["cleaned up"]


def test_an_error_after_its_caller_left_is_not_reported() -> None:
    """The caller is cancelled in the very moment in which the work fails."""

    async def main() -> None:
        caller = asyncio.create_task(bounded(_fails_soon(), 20))
        await asyncio.sleep(0.5)
        asyncio.get_running_loop().call_later(0.5, caller.cancel)
        with pytest.raises(asyncio.CancelledError):
            await caller

    async def _fails_soon() -> None:
        await asyncio.sleep(1)
        raise ConnectionError

    run(main())


@pytest.mark.parametrize(("takes_s", "ends"), [(CLEAN_UP_S / 2, ["started"]), (20.0, ["cut off"])])
def test_a_start_may_end_for_a_moment_where_its_caller_is_cancelled(
    takes_s: float, ends: list[str]
) -> None:
    ended: list[str] = []

    async def start() -> None:
        try:
            await asyncio.sleep(takes_s)
        except asyncio.CancelledError:
            ended.append("cut off")
            raise
        ended.append("started")

    async def main() -> None:
        caller = asyncio.create_task(bounded(start(), 30.0, wait_for_end))
        await asyncio.sleep(0)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller

    run(main())
    assert ended == ends


@pytest.mark.parametrize(("closing", "is_news"), [(_cancels_itself, False), (_fails, True)])
def test_a_client_that_cancels_its_own_close_is_no_warning(
    closing: Callable[[], Coroutine[None, None, object]],
    caplog: pytest.LogCaptureFixture,
    *,
    is_news: bool,
) -> None:
    run(close(closing()))

    assert [one.levelname for one in caplog.records] == (["WARNING"] if is_news else [])
