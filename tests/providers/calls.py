"""One call of any API to a server that plays what it is told."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

from services.worker.adapters.providers.apis import api as port
from services.worker.adapters.providers.apis.connection import Connection, ExchangeLimits
from services.worker.adapters.providers.http import LIMITS, HttpProvider
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import Reply
from services.worker.core.attempt.turn import Turn
from services.worker.core.schema.resolved import WireSchema
from services.worker.dialects.dispatch import DialectName
from services.worker.ports.provider import Readiness
from tests.providers.misbehaving import Misbehaving, Script, Send, answer, misbehaving

LIMIT_S = 5.0
SHORT_S = 0.5  # within which a call begins, also where both cores are busy
SECRET = "sk-very-secret"
SCHEMA: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
WIRE = WireSchema("native", "plan.v1", SCHEMA)
PROMPT = Prompt(
    "r-1",
    1,
    "private system",
    (Turn("user", "q"), Turn("assistant", "a")),
    WIRE,
    max_output_tokens=77,
    workflow_id="w-1",
)
CONNECTION = {field.name for field in fields(Connection)} - {"base_url"}


class StoppedClock:
    def now(self) -> datetime:
        return datetime(2026, 11, 21, 10, 0, 0, tzinfo=UTC)


@dataclass(frozen=True)
class Api:
    """An API's specification, and a good answer as it would give it."""

    name: str
    spec: Callable[..., port.Api]
    good: dict[str, Any]
    good_headers: dict[str, str | bytes]
    good_reply: Reply
    path: str
    options: dict[str, Any]
    dialect: DialectName
    sdk: str  # whose call ours is compared with

    @property
    def whole(self) -> tuple[Send]:
        return answer(self.good, headers=self.good_headers)

    def base(self, url: str) -> str:
        """What `base_url` is, for a server at `url`: only OpenAI's ends in /v1."""
        return url if self.dialect == "openai" else url.removesuffix("/v1")

    def specified(self, base_url: str | None, **options: Any) -> port.Api:
        """The specification of a profile; options are the connection's or its own."""
        settings = {"model": "m", "api_key": SECRET, "max_in_flight": 4}
        given = {**settings, **self.options, **options}
        shared = {name: given.pop(name) for name in CONNECTION if name in given}
        url = self.base(base_url) if base_url else None
        return self.spec(Connection(base_url=url, **shared), **given)

    @asynccontextmanager
    async def at(
        self, base_url: str | None, *, limits: ExchangeLimits = LIMITS, **options: Any
    ) -> AsyncIterator[HttpProvider]:
        """The provider, closed at the end."""
        api = self.specified(base_url, **options)
        provider = HttpProvider(api, StoppedClock(), limits)
        try:
            yield provider
        finally:
            await provider.close()

    async def ask(
        self, *scripts: Script, timeout_s: float = LIMIT_S, prompt: Prompt = PROMPT, **options: Any
    ) -> tuple[Reply, Misbehaving]:
        """One ask of a server that plays `scripts`: the reply, and what the server saw."""
        async with misbehaving(*scripts) as server, self.at(server.base_url, **options) as provider:
            return await provider.ask(prompt, timeout_s=timeout_s), server

    async def preflight(self, *scripts: Script, **options: Any) -> tuple[Readiness, Misbehaving]:
        """The check at start at a server that plays `scripts`: its finding, and what it saw."""
        async with misbehaving(*scripts) as server, self.at(server.base_url, **options) as provider:
            return await provider.preflight(), server
