"""How `answerbus replay run` sends: at the rate that was asked for, and asks before."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from answerbus.client.bus import Bus
from answerbus.registry import Registry
from services.commands.replay import running
from services.commands.replay.running import Task, replayed, send
from services.operators.adapters.replaying import Prepared
from services.operators.dead_letters.forecast import KnownNames
from services.operators.dead_letters.prepare_replay import Rejection, ReplayOrder
from services.operators.dead_letters.selection import Selection
from services.operators.records.dead_letter_key import DeadLetterKey


async def nothing() -> AsyncIterator[Prepared]:
    for prepared in list[Prepared]():
        yield prepared


async def test_a_rate_without_an_end_is_none() -> None:
    writer: Any = None  # nothing is written
    done = await send(writer, nothing(), 0, KnownNames(None, Registry()), rate=float("inf"))

    assert (done.count, done.ended) == (0, "done")


async def test_where_all_is_held_back_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    row = SimpleNamespace(key=DeadLetterKey("r-1.dead-letter", "order-1"))
    rejection = Rejection("unknown_profile", "No profile large is in the settings")

    @asynccontextmanager
    async def loading(*_: object, **__: object) -> AsyncIterator[SimpleNamespace]:
        yield SimpleNamespace(dead_letters=[row])

    async def held_back(*_: object) -> AsyncIterator[Any]:
        yield row, rejection

    monkeypatch.setattr(running, "loading", loading)
    monkeypatch.setattr(running, "select", lambda *_: [row])
    monkeypatch.setattr(running, "prepared_replays", held_back)
    known = KnownNames(None, Registry())
    task = Task(Bus("", "", {}), Selection(), ReplayOrder("ops", "mended"), known)

    done = await replayed(task, ask=True)

    assert (done.sums.sendable, list(done.sums.held_back)) == (0, [rejection])
