"""A worker of a run that hangs says where."""

import asyncio
import signal

import pytest

from tests.chaos.worker import tell


async def waiting() -> None:
    await asyncio.get_running_loop().create_future()


async def opening() -> None:
    await waiting()


async def test_each_task_tells_down_to_what_it_waits_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    task = asyncio.create_task(opening(), name="lane")
    await asyncio.sleep(0)

    tell(signal.SIGUSR1, None)
    task.cancel()

    _, reported = capsys.readouterr()[1].split("task lane, cancelled 0:")
    first, second, third, *_ = reported.strip().splitlines()
    assert first.endswith(" opening")
    assert second.endswith(" waiting")
    assert "Future" in third


def test_without_a_loop_nothing_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    tell(signal.SIGUSR1, None)

    assert capsys.readouterr().err == ""
