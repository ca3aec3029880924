"""The child process for costly work: what it gives, what ends it, and in which order it works."""

import asyncio
import os
import time
from collections.abc import AsyncIterator

import pytest

from services.worker.adapters.costly_work.child_process import ChildProcess
from services.worker.ports.costly_work import MIB, EndedAtLimit, WorkLimits

pytestmark = pytest.mark.wide

LIMITS = WorkLimits(memory_bytes=100 * MIB, cpu_s=1, wall_s=60.0)  # a busy machine gives CPU slowly


@pytest.fixture
async def child() -> AsyncIterator[ChildProcess]:
    process = ChildProcess(LIMITS)
    yield process
    await process.close()


def with_memory(size: int) -> int:
    return len(bytearray(size))


def without_end() -> None:
    while True:
        pass


def failing(what: str) -> None:
    raise LookupError(what)


def environment() -> list[str]:
    return sorted(os.environ)  # noqa: TID251 - of the child


async def names(child: ChildProcess) -> list[str]:
    found = await child.run("w", environment)
    assert isinstance(found, list)
    return found


async def pid_of(child: ChildProcess) -> int:
    pid = await child.run("w", os.getpid)
    assert isinstance(pid, int)
    return pid


async def test_it_gives_what_the_work_gives_and_the_same_process_serves_again(
    child: ChildProcess,
) -> None:
    first = await pid_of(child)

    assert await child.run("w", max, [3, 5]) == 5
    assert first == await pid_of(child) != os.getpid()


async def test_what_the_work_raises_is_raised_here(child: ChildProcess) -> None:
    with pytest.raises(LookupError, match="nothing there"):
        await child.run("w", failing, "nothing there")

    assert await child.run("w", max, [3, 5]) == 5


@pytest.mark.parametrize("size", [200 * MIB, 20_000 * MIB])
async def test_memory_is_limited(child: ChildProcess, size: int) -> None:
    assert await child.run("w", with_memory, size) == EndedAtLimit("memory")
    assert await child.run("w", with_memory, 50 * MIB) == 50 * MIB


async def test_cpu_time_is_limited_for_each_work_by_itself(child: ChildProcess) -> None:
    assert await child.run("w", without_end) == EndedAtLimit("cpu_time")
    assert await child.run("w", max, [3, 5]) == 5


async def test_wall_time_is_limited(child: ChildProcess) -> None:
    await child.run("w", max, [3, 5])
    child = ChildProcess(WorkLimits(wall_s=0.2))

    assert await child.run("w", time.sleep, 60) == EndedAtLimit("wall_time")
    assert await child.run("w", max, [3, 5]) == 5
    await child.close()


async def test_work_that_ends_its_process_ends_nothing_else(child: ChildProcess) -> None:
    assert await child.run("w", os._exit, 3) == EndedAtLimit("crash")
    assert await child.run("w", os.abort) == EndedAtLimit("memory")
    assert await child.run("w", max, [3, 5]) == 5


async def test_owners_have_their_turn_one_by_one(child: ChildProcess) -> None:
    done: list[str] = []

    async def work(owner: str) -> None:
        await child.run(owner, max, [1])
        done.append(owner)

    await asyncio.gather(*map(work, ["a", "a", "a", "a", "b"]))

    assert done.index("b") <= 2  # one was under way, and one was before it


async def test_work_that_nobody_waits_for_any_more_is_ended(child: ChildProcess) -> None:
    await child.run("w", max, [3, 5])
    endless = asyncio.create_task(child.run("w", time.sleep, 60))
    waiting = asyncio.create_task(child.run("w", time.sleep, 60))
    await asyncio.sleep(0)
    waiting.cancel()
    endless.cancel()
    await asyncio.wait([endless, waiting])

    async with asyncio.timeout(30):  # nothing of the minutes before is waited for
        assert await child.run("w", max, [3, 5]) == 5


async def test_the_environment_of_the_worker_is_not_handed_on(
    child: ChildProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")

    assert not {"OPENAI_API_KEY", "PATH"} & set(await names(child))


async def test_the_process_ends_with_its_parent(child: ChildProcess) -> None:
    """Its input ends then, which a closed pipe shows as well."""
    pid = await pid_of(child)
    process = child._process
    assert process is not None
    assert process.stdin is not None
    process.stdin.close()

    async with asyncio.timeout(30):
        assert await process.wait() == 0
    assert await pid_of(child) != pid
