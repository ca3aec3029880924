"""The present token of a credential: renewed before it ends, and once when it is refused."""

import asyncio
from contextlib import suppress

from answerbus.client.bounded import take_error
from services.worker.adapters.providers.apis.connection import AwsKeys
from services.worker.adapters.providers.credentials.credential import (
    Credential,
    NoTokenError,
    Token,
)

TOKEN_S_MAX = 10.0  # until a credential has given a token
BEFORE_END_S = 300.0  # a token is renewed so long before its end, or after half of a shorter life
AGAIN_AFTER_S = 10.0  # between two tokens that are asked for one after the other
LASTS_S_MAX = 1e9  # of a token without an end
KEPT = 8  # of the texts that tokens have had: a server may still echo one of those


class RenewedToken:
    """See KeySource. While a token is renewed, calls go on with the one that still holds."""

    def __init__(self, name: str, credential: Credential, audience: str | None) -> None:
        self.values: tuple[str, ...] = ()
        self._name, self._credential, self._audience = name, credential, audience
        self._token: Token | None = None
        self._asked_at = self._renew_at = self._ends_at = -float("inf")
        self._renewing: asyncio.Task[None] | None = None

    @property
    def value(self) -> str:
        """The newest text that is to be masked."""
        return self.values[-1] if self.values else ""

    async def current(self) -> str | AwsKeys:
        """Raises NoTokenError."""
        now = asyncio.get_running_loop().time()
        if self._token is None or now >= self._ends_at:
            await self._renewed()
        elif now >= self._renew_at:
            self._renewal()
        return self._held.key

    async def instead_of(self, refused: str | AwsKeys) -> str | AwsKeys:
        """The present one; another, where that is the refused one and not quite new."""
        is_old = asyncio.get_running_loop().time() >= self._asked_at + AGAIN_AFTER_S
        if self._held.key == refused and is_old:
            with suppress(NoTokenError):
                await self._renewed()
        return self._held.key

    async def close(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)

    @property
    def _held(self) -> Token:
        if self._token is None:
            raise NoTokenError(f"the credential `{self._name}` has given no token yet")
        return self._token

    async def _renewed(self) -> None:
        """One renewal serves all callers; one that leaves does not end it."""
        await asyncio.shield(self._renewal())

    def _renewal(self) -> asyncio.Task[None]:
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._renew())
            # It may fail while no call waits: the token still holds, and it is tried again.
            self._renewing.add_done_callback(take_error)
        return self._renewing

    async def _renew(self) -> None:
        loop = asyncio.get_running_loop()
        self._asked_at = loop.time()
        self._renew_at = self._asked_at + AGAIN_AFTER_S  # where this fails
        token = await self._asked()
        lasts_s = LASTS_S_MAX if token.lasts_s is None else min(token.lasts_s, LASTS_S_MAX)
        has_ended = lasts_s <= 0  # by our clock; its provider says whether by its own
        self._token = token
        self._ends_at = float("inf") if has_ended else self._asked_at + lasts_s
        if not has_ended:
            self._renew_at = self._asked_at + max(lasts_s - BEFORE_END_S, lasts_s / 2)
        fresh = [text for text in token.texts if text not in self.values]
        self.values = (*self.values, *fresh)[-KEPT:]

    async def _asked(self) -> Token:
        name = self._name
        try:
            async with asyncio.timeout(TOKEN_S_MAX):
                token = await self._credential(self._audience)
        except TimeoutError:
            raise NoTokenError(
                f"the credential `{name}` gave no token in {TOKEN_S_MAX:g} s"
            ) from None
        except Exception as error:  # of an SDK or a plug-in, whose text may hold secrets
            raise NoTokenError(
                f"the credential `{name}` gave no token ({type(error).__name__})"
            ) from None
        if not isinstance(token, Token) or not token.is_usable:
            raise NoTokenError(f"the credential `{name}` gave something that is not a token")
        return token
