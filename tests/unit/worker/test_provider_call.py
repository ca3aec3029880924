"""A call ends with a Reply, and an answer that has arrived is not thrown away."""

import asyncio

from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import Reply, Unavailable
from services.worker.lane.admission import ask_once
from services.worker.ports.provider import Ready
from tests.unit.worker.builders import answered, prompt

TIMEOUT_S = 0.01


class Slow:
    """A provider that needs longer than its time, such as for masking behind many others."""

    name, model = "slow", "m"

    def __init__(self, fault: BaseException | None = None) -> None:
        self._fault = fault

    async def ask(self, prompt: Prompt, *, timeout_s: float) -> Reply:
        await asyncio.sleep(5 * timeout_s)
        if self._fault:
            raise self._fault
        return answered()

    async def preflight(self) -> Ready:
        return Ready(None)

    async def close(self) -> None:
        pass


async def test_an_answer_that_takes_long_to_read_is_kept() -> None:
    assert await ask_once(Slow(), prompt(), TIMEOUT_S) == answered()


async def test_a_provider_that_raises_has_replied() -> None:
    for fault in (ValueError("a bug"), asyncio.CancelledError(), SystemExit(1)):
        reply = await ask_once(Slow(fault), prompt(), TIMEOUT_S)

        assert reply == Unavailable(status=None, ran=True)
