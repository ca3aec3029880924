"""The adapter to the Gemini API."""

import re
from collections.abc import Awaitable
from typing import Any

from google import genai
from google.genai import types

from services.worker.core.prompt import Prompt
from services.worker.core.reply import Rejected, Reply
from services.worker.ports import Clock, NotReady, Ready
from services.worker.providers import exchange, gemini_replies, preflight
from services.worker.providers.response_fields import json_in

GEMINI_BASE_URL = "https://generativelanguage.googleapis.com"
API_VERSION = "v1"  # else an environment variable may choose it
MODELS_LISTED_MAX = 1000  # the largest page there is
# The API serves these beside its own and knows no JSON mode for them; it says so in a call alone.
WITHOUT_SCHEMAS = re.compile(r"(?:models/)?gemma-[1-3]")
_ROLES = {"user": "user", "assistant": "model"}


class GeminiProvider:
    """One profile at Gemini, or at a compatible server under `base_url`.

    `thinking_budget` bounds, in tokens, what is thought before the answer; it counts as output.
    `check_model=False` is for servers that list other names than they serve. `native` says whether
    the profile has its answers enforced, so that the model must be able to.
    """

    name = "gemini"

    def __init__(
        self,
        *,
        model: str,
        api_key: str | None,
        max_in_flight: int,
        clock: Clock,
        base_url: str | None = None,
        temperature: float | None = None,
        thinking_budget: int | None = None,
        check_model: bool = True,
        native: bool = True,
    ) -> None:
        self.model = model
        self._api_key = api_key
        self._clock = clock
        self._base_url = (base_url or GEMINI_BASE_URL).rstrip("/")
        self._temperature = temperature
        self._thinking_budget = thinking_budget
        self._check_model = check_model
        self._native = native
        self._http = exchange.http_client(max_in_flight)
        self._client = genai.Client(
            vertexai=False,  # else an environment variable may choose another product
            api_key=api_key or exchange.NO_KEY,
            http_options=types.HttpOptions(
                base_url=self._base_url,
                api_version=API_VERSION,
                httpx_async_client=self._http,  # else it takes aiohttp, and tries again by itself
                retry_options=types.HttpRetryOptions(attempts=1),
            ),
        )

    async def ask(self, prompt: Prompt, *, timeout_s: float) -> Reply:
        """One POST to `models/<model>:generateContent`."""
        turns: list[types.ContentUnion] = [
            types.Content(role=_ROLES[turn.role], parts=[types.Part(text=turn.text)])
            for turn in prompt.turns
        ]
        call = self._client.aio.models.generate_content(
            model=self.model, contents=turns, config=self._config(prompt)
        )
        reply = await self._exchange(call, timeout_s)
        if isinstance(reply, exchange.Received):
            return gemini_replies.of_answer(
                reply.status, reply.headers, reply.body, prompt.max_output_tokens
            )
        return reply

    async def preflight(self) -> Ready | NotReady:
        """Asks what the model can do: it costs nothing and needs the key."""
        problem = await self._problem()
        return Ready() if problem is None else NotReady(problem)

    async def close(self) -> None:
        """Closes all connections; calls in flight fail."""
        await self._client.aio.aclose()
        self._client.close()
        await self._http.aclose()

    def _config(self, prompt: Prompt) -> types.GenerateContentConfig:
        native = prompt.wire.schema is not None
        budget = self._thinking_budget
        return types.GenerateContentConfig(
            system_instruction=prompt.system,
            max_output_tokens=prompt.max_output_tokens,
            temperature=self._temperature,
            thinking_config=None
            if budget is None
            else types.ThinkingConfig(thinking_budget=budget),
            response_mime_type="application/json" if native else None,
            response_json_schema=prompt.wire.schema,
            automatic_continuation=False,  # that would be a second call
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
            should_return_http_response=True,  # it is read here, and not twice
        )

    async def _exchange(
        self, call: Awaitable[object], timeout_s: float
    ) -> exchange.Received | Reply:
        """One request: the response of a 2xx, and a Reply for everything else."""
        got = await exchange.recorded(call, timeout_s)
        if isinstance(got, exchange.Received) and got.status // 100 != 2:
            return gemini_replies.of_error(got.status, got.headers, got.body, self._clock.now())
        return got

    async def _problem(self) -> str | None:
        at_google = self._base_url == GEMINI_BASE_URL
        if problem := preflight.of_key(self._api_key, needed=at_google):
            return problem
        if self._native and WITHOUT_SCHEMAS.match(self.model):
            return preflight.of_capability(self.model)
        call = self._client.aio.models.get(model=self.model)
        found = await self._exchange(call, exchange.PREFLIGHT_TIMEOUT_S)
        if isinstance(found, exchange.Received):
            return self._method_problem(json_in(found.body))
        if isinstance(found, Rejected) and found.status == 404 and self._check_model:
            return await self._name_problem()
        return preflight.of_listing(found, self._base_url)

    def _method_problem(self, model: Any) -> str | None:
        match model:
            case {"supportedGenerationMethods": [*methods]} if "generateContent" not in methods:
                return f"the model {self.model!r} writes no answers: set `model` to one that does"
            case {**_unknown}:
                return None
            case _:
                return f"{self._base_url} is no such API: correct `base_url`; it ends before /v1"

    async def _name_problem(self) -> str | None:
        """Some servers have no listing, and may know the model all the same."""
        call = self._client.aio.models.list(config={"page_size": MODELS_LISTED_MAX})
        listing = await self._exchange(call, exchange.PREFLIGHT_TIMEOUT_S)
        if not isinstance(listing, exchange.Received):
            return preflight.of_listing(listing, self._base_url)
        listed = preflight.models_in(listing.body, under="models", name="name") or frozenset()
        known = {name.removeprefix("models/") for name in listed}
        if not known or self.model.removeprefix("models/") in known:
            return None
        return preflight.of_model(self.model, known, self._base_url)
