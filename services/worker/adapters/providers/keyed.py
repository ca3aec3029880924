"""A provider whose key changes while it is used: each call uses the present one."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from services.settings.secret_file import SecretFile
from services.worker.adapters.providers.apis.connection import AwsKeys
from services.worker.adapters.providers.credentials.claims import fault_of
from services.worker.adapters.providers.credentials.credential import NoTokenError
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import Rejected, Reply
from services.worker.ports.clock import Clock
from services.worker.ports.provider import NotReady, Provider, Readiness, Unhealthy

UNAUTHORIZED = 401
NO_TOKEN = "no_token"  # noqa: S105 - our word for a credential that gave none
REFUSED_KEY_CODES = {  # said with another status
    "API_KEY_INVALID",  # Gemini
    "invalid_api_key",  # OpenAI
    *("ExpiredTokenException", "InvalidSignatureException", "UnrecognizedClientException"),  # AWS
}
Key = str | AwsKeys


class KeySource(Protocol):
    """Where the present key comes from."""

    async def current(self) -> Key:
        """The key that calls use now. Raises NoTokenError."""
        ...

    async def instead_of(self, refused: Key) -> Key:
        """The present key after a look for another; the refused one, if there is none."""
        ...

    async def close(self) -> None: ...


class FileKey:
    """See KeySource: a key in a file."""

    def __init__(self, file: SecretFile) -> None:
        self._file = file

    async def current(self) -> Key:
        return self._file.value

    async def instead_of(self, refused: Key) -> Key:  # noqa: ARG002
        self._file.reload()
        return self._file.value

    async def close(self) -> None: ...


@dataclass(slots=True)
class _Keyed:
    """A provider that was made for one key, and how many of its calls are under way."""

    key: Key
    provider: Provider
    calls: int = 0


class KeyedProvider:
    """See Provider. A new key is used from the next call on; calls under way end with theirs.

    A key that is refused is looked for once more: if another is there by now, the same call is made
    with that, within its time and its permit. What refuses a key has done no work. Where no key is
    there in time, the provider is not asked.
    """

    def __init__(
        self,
        name: str,
        model: str,
        keys: KeySource,
        make: Callable[[Key], Provider],
        audience: str | None,
        clock: Clock,
    ) -> None:
        self.name, self.model = name, model
        self._keys, self._make, self._audience, self._clock = keys, make, audience, clock
        self._current: _Keyed | None = None
        self._former: list[_Keyed] = []

    async def ask(self, prompt: Prompt, *, timeout_s: float) -> Reply:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + timeout_s
        begins_by = ends_at if prompt.begins_by is None else min(ends_at, prompt.begins_by)
        key = await _in_time(self._keys.current(), begins_by)
        if key is None:
            return Rejected("profile", UNAUTHORIZED, NO_TOKEN)
        async with self._in_use(key) as provider:
            reply = await provider.ask(prompt, timeout_s=ends_at - loop.time())
        if not _is_key_refused(reply):
            return reply
        other = await _in_time(self._keys.instead_of(key), begins_by)
        if other is None or other == key:
            return reply
        async with self._in_use(other) as provider:
            return await provider.ask(prompt, timeout_s=ends_at - loop.time())

    async def preflight(self) -> Readiness:
        try:
            key = await self._keys.instead_of(await self._keys.current())
        except NoTokenError as error:
            return Unhealthy(f"{error}: correct what its identity is made from")
        fault = fault_of(key, self._audience, self._clock.now()) if isinstance(key, str) else None
        if fault:
            return NotReady(f"the token {fault}")
        async with self._in_use(key) as provider:
            return await provider.preflight()

    async def close(self) -> None:
        await self._keys.close()
        for keyed in (*([self._current] if self._current else []), *self._former):
            await keyed.provider.close()

    @asynccontextmanager
    async def _in_use(self, key: Key) -> AsyncIterator[Provider]:
        """The provider of that key; one of a former key is closed by its last call."""
        if self._current is None or key != self._current.key:
            self._former += [self._current] if self._current else []
            self._current = _Keyed(key, self._make(key))
        keyed = self._current
        keyed.calls += 1
        try:
            yield keyed.provider
        finally:
            keyed.calls -= 1
            idle = [one for one in self._former if not one.calls]
            self._former = [one for one in self._former if one.calls]
            for one in idle:
                await one.provider.close()


async def _in_time(key: Awaitable[Key], begins_by: float) -> Key | None:
    """None where there is no key, or none while a call may still begin."""
    try:
        async with asyncio.timeout_at(begins_by):
            found = await key
    except (NoTokenError, TimeoutError):
        return None
    return found if asyncio.get_running_loop().time() < begins_by else None


def _is_key_refused(reply: Reply) -> bool:
    return isinstance(reply, Rejected) and (
        reply.status == UNAUTHORIZED or reply.code in REFUSED_KEY_CODES
    )
