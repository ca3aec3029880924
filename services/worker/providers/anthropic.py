"""The adapter to Anthropic's Messages API, and to every server that speaks it."""

from typing import Any
from urllib.parse import quote

import anthropic
import httpx2

from services.worker.core.prompt import Prompt
from services.worker.core.reply import Rejected, Reply
from services.worker.fair_timeout import fair_timeout
from services.worker.ports import Clock, NotReady, Ready
from services.worker.providers import anthropic_replies, exchange, preflight
from services.worker.providers.response_fields import json_in

ANTHROPIC_BASE_URL = "https://api.anthropic.com"
MODELS_LISTED_MAX = 1000  # the largest page there is


class AnthropicProvider:
    """One profile at Anthropic, or at a compatible server under `base_url`.

    `check_model=False` is for servers that list other names than they serve. `native` says whether
    the profile has its answers enforced, so that the model must be able to.
    """

    name = "anthropic"

    def __init__(
        self,
        *,
        model: str,
        api_key: str | None,
        max_in_flight: int,
        clock: Clock,
        base_url: str | None = None,
        temperature: float | None = None,
        check_model: bool = True,
        native: bool = True,
    ) -> None:
        self.model = model
        self._api_key = api_key
        self._clock = clock
        self._base_url = (base_url or ANTHROPIC_BASE_URL).rstrip("/")
        self._temperature = temperature
        self._check_model = check_model
        self._native = native
        self._client = anthropic.AsyncAnthropic(
            api_key=api_key or exchange.NO_KEY,
            base_url=self._base_url,
            max_retries=0,
            default_headers=exchange.UNPACKED,
            http_client=exchange.http_client(max_in_flight),
        )

    async def ask(self, prompt: Prompt, *, timeout_s: float) -> Reply:
        """One POST to `/v1/messages`."""
        reply = await self._exchange("/v1/messages", timeout_s, self._body(prompt))
        if isinstance(reply, httpx2.Response):
            return anthropic_replies.of_answer(
                reply.status_code, reply.headers, reply.content, prompt.max_output_tokens
            )
        return reply

    async def preflight(self) -> Ready | NotReady:
        """Asks what the model can do: it costs nothing and needs the key."""
        problem = await self._problem()
        return Ready() if problem is None else NotReady(problem)

    async def close(self) -> None:
        """Closes all connections; calls in flight fail."""
        await self._client.close()

    def _body(self, prompt: Prompt) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": prompt.max_output_tokens,
            "system": prompt.system,
            "messages": [{"role": turn.role, "content": turn.text} for turn in prompt.turns],
        }
        if self._temperature is not None:
            body["temperature"] = self._temperature
        if prompt.wire.schema is not None:
            form = {"type": "json_schema", "schema": prompt.wire.schema}
            body["output_config"] = {"format": form}
        return body

    async def _exchange(
        self, path: str, timeout_s: float, body: dict[str, Any] | None = None
    ) -> httpx2.Response | Reply:
        """One request: the response of a 2xx, and a Reply for everything else."""
        options: anthropic.RequestOptions = {
            "timeout": exchange.timeouts(),
            "follow_redirects": False,  # that would be a second call
        }
        kind = httpx2.Response  # as it came: the SDK's own models are slow and check nothing
        try:
            async with fair_timeout(timeout_s):
                if body is None:
                    return await self._client.get(path, cast_to=kind, options=options)
                return await self._client.post(path, cast_to=kind, body=body, options=options)
        except Exception as error:
            return self._reply_to(error, timeout_s)

    def _reply_to(self, error: Exception, timeout_s: float) -> Reply:
        """What a call came to that brought no 2xx."""
        if isinstance(error, anthropic.APIStatusError):
            told, now = error.response, self._clock.now()
            return anthropic_replies.of_error(told.status_code, told.headers, told.content, now)
        return exchange.reply_to(error, timeout_s, network=(anthropic.APIConnectionError,))

    async def _problem(self) -> str | None:
        at_anthropic = self._base_url == ANTHROPIC_BASE_URL
        if problem := preflight.of_key(self._api_key, needed=at_anthropic):
            return problem
        path = "/v1/models/" + quote(self.model, safe="")
        found = await self._exchange(path, exchange.PREFLIGHT_TIMEOUT_S)
        if isinstance(found, httpx2.Response):
            return self._capability_problem(json_in(found.content))
        if isinstance(found, Rejected) and found.status == 404 and self._check_model:
            return await self._name_problem()
        return preflight.of_listing(found, self._base_url)

    def _capability_problem(self, model: Any) -> str | None:
        match model:
            case {"capabilities": {"structured_outputs": {"supported": False}}} if self._native:
                return preflight.of_capability(self.model)
            case {"lifecycle": "retired"}:
                return f"the model {self.model!r} is retired: set `model` to a newer one"
            case {**_unknown}:
                return None
            case _:
                return f"{self._base_url} is no such API: correct `base_url`; it ends before /v1"

    async def _name_problem(self) -> str | None:
        """Some servers have no listing, and may know the model all the same."""
        path = f"/v1/models?limit={MODELS_LISTED_MAX}"
        listing = await self._exchange(path, exchange.PREFLIGHT_TIMEOUT_S)
        if not isinstance(listing, httpx2.Response):
            return preflight.of_listing(listing, self._base_url)
        known = preflight.models_in(listing.content)
        if not known or self.model in known:
            return None
        return preflight.of_model(self.model, known, self._base_url)
