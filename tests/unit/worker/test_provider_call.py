"""A call ends with a Reply, and an answer that has arrived in time is not thrown away."""

import asyncio
from unittest import mock

from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import Reply, TimedOut
from services.worker.lane import admission
from services.worker.lane.admission import ask_bounded
from services.worker.ports.provider import Ready
from tests.unit.worker.builders import answered, prompt

TIMEOUT_S = 0.01


class Slow:
    """A provider that needs longer than its time, such as for masking."""

    name, model = "slow", "m"

    def __init__(self, takes_s: float) -> None:
        self._takes_s = takes_s

    async def ask(self, prompt: Prompt, *, timeout_s: float) -> Reply:
        await asyncio.sleep(self._takes_s)
        return answered()

    async def preflight(self) -> Ready:
        return Ready(None)

    async def close(self) -> None:
        pass


async def test_an_answer_that_takes_long_to_read_is_kept() -> None:
    assert await ask_bounded(Slow(5 * TIMEOUT_S), prompt(), TIMEOUT_S) == answered()


async def test_a_provider_that_does_not_end_is_ended() -> None:
    with mock.patch.object(admission, "READING_S", TIMEOUT_S):
        reply = await ask_bounded(Slow(60.0), prompt(), TIMEOUT_S)

    assert reply == TimedOut(TIMEOUT_S)
