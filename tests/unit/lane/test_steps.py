"""Steps of a lane: one at a time, and none for ever."""

import asyncio

from services.worker.lane.steps import CLEAN_UP_S, Steps
from tests.unit.lane.virtual import run


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

    steps = Steps()
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

        async def deaf() -> None:
            while True:
                try:
                    await asyncio.sleep(1_000_000)
                except asyncio.CancelledError:
                    if began:
                        raise

        async def next_one() -> None:
            began.append(now())

        steps = Steps()
        steps.start(deaf)
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
