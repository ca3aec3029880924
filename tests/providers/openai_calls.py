"""One call of the OpenAI adapter to a server that plays what it is told."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from answerbus.budget import Usage
from services.worker.core.asked import WireSchema
from services.worker.core.prompt import Prompt, Turn
from services.worker.core.reply import Answered, CallFacts, Reply
from services.worker.providers.openai import OpenAIProvider
from tests.providers.misbehaving import Misbehaving, Script, answer, misbehaving

LIMIT_S = 5.0
SHORT_S = 0.2
SECRET = "sk-very-secret"
SCHEMA: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
WIRE = WireSchema("openai", "plan.v1", SCHEMA, decode=lambda value: value)
PROMPT = Prompt(
    "r-1",
    1,
    "private system",
    (Turn("user", "q"), Turn("assistant", "a")),
    WIRE,
    max_output_tokens=77,
)
GOOD = {
    "id": "chatcmpl-1",
    "model": "m-2026",
    "choices": [{"message": {"content": "{}", "refusal": None}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 12, "completion_tokens": 3},
}
GOOD_REPLY = Answered(
    "{}", CallFacts("m-2026", "req_1", "stop", Usage(input_tokens=12, output_tokens=3))
)
WHOLE = answer(GOOD, headers={"x-request-id": "req_1"})


class StoppedClock:
    def now(self) -> datetime:
        return datetime(2026, 11, 21, 10, 0, 0, tzinfo=UTC)


@asynccontextmanager
async def provider_at(base_url: str | None, **options: Any) -> AsyncIterator[OpenAIProvider]:
    settings = {"model": "m", "api_key": SECRET, "max_in_flight": 4, "clock": StoppedClock()}
    provider = OpenAIProvider(base_url=base_url, **{**settings, **options})
    try:
        yield provider
    finally:
        await provider.close()


async def ask(
    *scripts: Script, timeout_s: float = LIMIT_S, prompt: Prompt = PROMPT, **options: Any
) -> tuple[Reply, Misbehaving]:
    """One ask of a server that plays `scripts`: the reply, and what the server saw."""
    async with misbehaving(*scripts) as server, provider_at(server.base_url, **options) as provider:
        return await provider.ask(prompt, timeout_s=timeout_s), server
