"""A provider whose key lies in a file: each call uses the current key."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from services.settings.secret_file import SecretFile
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import Rejected, Reply
from services.worker.ports.provider import Provider, Readiness

UNAUTHORIZED = 401
INVALID_KEY = "API_KEY_INVALID"  # which Gemini says with status 400


@dataclass(slots=True)
class _Keyed:
    """A provider that was made for one key, and how many of its calls are under way."""

    key: str
    provider: Provider
    calls: int = 0


class KeyedProvider:
    """See Provider. A new key is used from the next call on; calls under way end with theirs.

    A key that is refused is looked for once more in the file: if another is there by now, the same
    call is made with that, within its time. What refuses a key has done no work.
    """

    def __init__(self, file: SecretFile, make: Callable[[str], Provider]) -> None:
        self._file, self._make = file, make
        self._current = self._made()
        self._former: list[_Keyed] = []
        self.name, self.model = self._current.provider.name, self._current.provider.model

    async def ask(self, prompt: Prompt, *, timeout_s: float) -> Reply:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + timeout_s
        async with self._in_use() as first:
            reply = await first.provider.ask(prompt, timeout_s=timeout_s)
        if not _is_key_refused(reply):
            return reply
        self._file.reload()
        left_s = ends_at - loop.time()
        if self._file.value == first.key or left_s <= 0:
            return reply
        async with self._in_use() as second:
            return await second.provider.ask(prompt, timeout_s=left_s)

    async def preflight(self) -> Readiness:
        self._file.reload()
        async with self._in_use() as keyed:
            return await keyed.provider.preflight()

    async def close(self) -> None:
        for keyed in (self._current, *self._former):
            await keyed.provider.close()

    @asynccontextmanager
    async def _in_use(self) -> AsyncIterator[_Keyed]:
        """The provider of the present key; one of a former key is closed by its last call."""
        if self._file.value != self._current.key:
            self._former.append(self._current)
            self._current = self._made()
        keyed = self._current
        keyed.calls += 1
        try:
            yield keyed
        finally:
            keyed.calls -= 1
            idle = [one for one in self._former if not one.calls]
            self._former = [one for one in self._former if one.calls]
            for one in idle:
                await one.provider.close()

    def _made(self) -> _Keyed:
        key = self._file.value
        return _Keyed(key, self._make(key))


def _is_key_refused(reply: Reply) -> bool:
    return isinstance(reply, Rejected) and (
        reply.status == UNAUTHORIZED or reply.code == INVALID_KEY
    )
