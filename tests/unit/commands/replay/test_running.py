"""How `answerbus replay run` sends: at the rate that was asked for."""

from collections.abc import AsyncIterator
from typing import Any

from answerbus.registry import Registry
from services.commands.replay.running import send
from services.operators.adapters.replaying import Prepared
from services.operators.dead_letters.forecast import KnownNames


async def nothing() -> AsyncIterator[Prepared]:
    for prepared in list[Prepared]():
        yield prepared


async def test_a_rate_without_an_end_is_none() -> None:
    writer: Any = None  # nothing is written
    done = await send(writer, nothing(), 0, KnownNames(None, Registry()), rate=float("inf"))

    assert (done.count, done.ended) == (0, "done")
