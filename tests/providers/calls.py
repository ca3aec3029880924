"""One call of any adapter to a server that plays what it is told."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from services.worker.core.prompt import Prompt, Turn
from services.worker.core.reply import Reply
from services.worker.core.resolved_schema import WireSchema
from services.worker.ports import Provider
from services.worker.providers.openai import OpenAIProvider
from tests.providers.misbehaving import Misbehaving, Script, answer, misbehaving

LIMIT_S = 5.0
SHORT_S = 0.2
SECRET = "sk-very-secret"
SCHEMA: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
WIRE = WireSchema("native", "plan.v1", SCHEMA, decode=lambda value: value)
PROMPT = Prompt(
    "r-1",
    1,
    "private system",
    (Turn("user", "q"), Turn("assistant", "a")),
    WIRE,
    max_output_tokens=77,
)


class StoppedClock:
    def now(self) -> datetime:
        return datetime(2026, 11, 21, 10, 0, 0, tzinfo=UTC)


@dataclass(frozen=True)
class Api:
    """An adapter, and a good answer as its API would give it."""

    name: str
    adapter: Callable[..., Provider]
    good: dict[str, Any]
    good_headers: dict[str, str | bytes]
    good_reply: Reply
    path: str
    options: dict[str, Any]

    @property
    def whole(self) -> Script:
        return answer(self.good, headers=self.good_headers)

    def base(self, url: str) -> str:
        """What `base_url` is, for a server at `url`: only OpenAI's ends in /v1."""
        return url if self.adapter is OpenAIProvider else url.removesuffix("/v1")

    @asynccontextmanager
    async def at(self, base_url: str | None, **options: Any) -> AsyncIterator[Any]:
        """The adapter, closed at the end."""
        settings = {"model": "m", "api_key": SECRET, "max_in_flight": 4, "clock": StoppedClock()}
        given = {**settings, **self.options, **options}
        provider = self.adapter(base_url=self.base(base_url) if base_url else None, **given)
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
