"""Steps of a lane: one at a time, and none for ever."""

import asyncio

import pytest

from services.worker.tasks.latest_task import CLEAN_UP_S, Cancellation, LatestTask
from tests.unit.worker.lane.virtual import run


async def test_the_next_step_begins_when_the_one_before_has_cleaned_up() -> None:
    done: list[str] = []

    async def first() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            done.append("cleaned up")

    async def second() -> None:
        done.append("second")

    steps = LatestTask()
    steps.start(first)
    await asyncio.sleep(0)
    steps.start(second)
    steps.start(second)
    assert steps.current is not None
    await steps.current

    assert done == ["cleaned up", "second"]


def test_a_step_that_never_ends_keeps_no_lane_shut() -> None:
    """A library may swallow a cancellation, and wait on."""

    async def play() -> list[float]:
        began: list[float] = []
        now = asyncio.get_running_loop().time

        async def ignores_cancellation() -> None:
            while True:
                try:
                    await asyncio.sleep(1_000_000)
                except asyncio.CancelledError:
                    if began:
                        raise

        async def next_one() -> None:
            began.append(now())

        steps = LatestTask()
        steps.start(ignores_cancellation)
        stuck = steps.current
        await asyncio.sleep(1)
        steps.start(next_one)
        assert steps.current is not None
        await steps.current
        steps.start(next_one)
        await steps.current
        assert stuck is not None
        stuck.cancel()
        return began

    assert run(play()) == [1001 + CLEAN_UP_S, 1001 + CLEAN_UP_S]


@pytest.mark.parametrize("error", [asyncio.CancelledError, RuntimeError])
def test_a_step_that_ends_by_itself_is_done_again(
    error: type[BaseException],
) -> None:
    async def play() -> int:
        began = 0

        async def step() -> None:
            nonlocal began
            began += 1
            await asyncio.sleep(0.1)
            if began < 3:
                raise error

        steps = LatestTask()
        steps.start(step)
        assert steps.current is not None
        await steps.current
        return began

    assert run(play()) == 3


def test_a_task_is_cancelled_once_also_while_a_time_out_of_its_own_ends_it() -> None:
    async def play() -> bool:
        was_cleaned_up = False

        async def work() -> None:
            nonlocal was_cleaned_up
            try:
                async with asyncio.timeout(1):
                    await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0.1)
                was_cleaned_up = True

        task, cancellation = asyncio.create_task(work()), Cancellation()
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(1, cancellation.of, task)
        await asyncio.sleep(1.05)
        cancellation.of(task)
        await asyncio.wait([task])
        assert task.cancelled()
        return was_cleaned_up

    assert run(play())
