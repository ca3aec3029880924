"""Processes of one command begin together, and none waits for ever for one that does not come."""

import asyncio
import multiprocessing

from services.worker.lane.siblings import JOIN_S_MAX, Siblings
from tests.unit.worker.lane.virtual import on_virtual_time


def both() -> tuple[Siblings, Siblings]:
    joined = multiprocessing.get_context("spawn").Value("i", 0)
    return Siblings(2, joined), Siblings(2, joined)


async def settled_after_s(siblings: Siblings) -> float:
    began = asyncio.get_running_loop().time()
    await siblings.settled.wait()
    return asyncio.get_running_loop().time() - began


@on_virtual_time
async def test_none_begins_before_all_have_joined() -> None:
    first, second = both()
    settling = asyncio.create_task(first.settle())
    first.has_share()
    first.has_share()  # each assignment says so, and one process is one
    await asyncio.sleep(3)
    assert not first.settled.is_set()
    second.has_share()
    assert await settled_after_s(first) < 1
    await settling


@on_virtual_time
async def test_one_that_does_not_come_is_waited_for_only_so_long() -> None:
    first, _ = both()
    settling = asyncio.create_task(first.settle())
    first.has_share()
    assert abs(await settled_after_s(first) - JOIN_S_MAX) < 1
    await settling


@on_virtual_time
async def test_a_process_by_itself_waits_for_none() -> None:
    alone = Siblings()
    assert alone.settled.is_set()
    alone.has_share()
    await alone.settle()
    assert alone.settled.is_set()
