"""Searches of prompts that pages ask for: one at a time, each for a few seconds."""

import asyncio

from answerbus.client.bus import Bus
from services.operators.adapters.prompt_search import PromptSearch, search_prompts

SEARCH_S = 4.0
TURN_S = 10.0  # how long a search waits for those before it
MATCHES_MAX = 30


class PromptSearcher:
    def __init__(self, bus: Bus) -> None:
        self._bus, self._turn = bus, asyncio.Lock()

    async def search(self, text: str) -> PromptSearch:
        """Raises BusUnavailable, and TimeoutError where others search for too long."""
        async with asyncio.timeout(TURN_S):
            await self._turn.acquire()
        try:
            return await search_prompts(self._bus, text, within_s=SEARCH_S, matches_max=MATCHES_MAX)
        finally:
            self._turn.release()
