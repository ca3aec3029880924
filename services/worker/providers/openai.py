"""The adapter to OpenAI's Chat Completions and Responses, and to every server that speaks them."""

import re
from typing import Any, Literal
from urllib.parse import quote

import httpx2
import openai
from pydantic_core import to_json

from services.worker.core.prompt import Prompt
from services.worker.core.reply import Reply
from services.worker.core.resolved_schema import WireSchema
from services.worker.fair_timeout import fair_timeout
from services.worker.ports import Clock, NotReady, Ready
from services.worker.providers import exchange, openai_replies, openai_responses, preflight

OPENAI_BASE_URL = "https://api.openai.com/v1"
SCHEMA_NAME_CHARS_MAX = 64
# OpenAI's models from before structured output; its listing says nothing of what a model can do.
WITHOUT_SCHEMAS = re.compile(
    r"(?:gpt-3\.5|gpt-4(?:-|$)|gpt-4o-2024-05-13|chatgpt-4o|o1-mini|o1-preview)"
)


class OpenAIProvider:
    """One profile at OpenAI, or at a compatible server under `base_url`.

    OpenAI's newer models refuse `max_tokens`, and many compatible servers ignore its successor and
    would write without limit. So `output_limit_field` None means `max_completion_tokens` at OpenAI
    alone: where that guess is wrong, calls are refused and not boundless.
    `check_model=False` is for servers that list other names than they serve (deployments).
    `native` says whether the profile has its answers enforced, so that the model must be able to.
    """

    name = "openai"

    def __init__(
        self,
        *,
        model: str,
        api_key: str | None,
        max_in_flight: int,
        clock: Clock,
        base_url: str | None = None,
        temperature: float | None = None,
        output_limit_field: Literal["max_completion_tokens", "max_tokens"] | None = None,
        check_model: bool = True,
        api: Literal["chat", "responses"] = "chat",
        native: bool = True,
    ) -> None:
        self.model = model
        self._api_key = api_key
        self._clock = clock
        self._base_url = (base_url or OPENAI_BASE_URL).rstrip("/")
        self._at_openai = self._base_url == OPENAI_BASE_URL
        self._sampling = {} if temperature is None else {"temperature": temperature}
        usual = "max_completion_tokens" if self._at_openai else "max_tokens"
        self._limit_field = output_limit_field or usual
        self._check_model = check_model
        self._native = native
        self._path, self._body, self._read = (
            ("/responses", self._responses_body, openai_responses.of_answer)
            if api == "responses"
            else ("/chat/completions", self._chat_body, openai_replies.of_answer)
        )
        self._http = exchange.http_client(max_in_flight)
        self._client = openai.AsyncOpenAI(
            api_key=api_key or exchange.NO_KEY,
            base_url=self._base_url,
            max_retries=0,
            default_headers=exchange.UNPACKED,
            http_client=self._http,
        )
        # The SDK takes these from the environment and would tell any server.
        self._client.organization = self._client.project = None
        self._url = httpx2.URL(self._base_url + self._path)
        self._headers = _headers(self._client)

    async def ask(self, prompt: Prompt, *, timeout_s: float) -> Reply:
        """One POST to `/chat/completions` or `/responses`."""
        try:
            async with fair_timeout(timeout_s):
                told = await self._post(self._body(prompt))
        except Exception as error:
            return self._reply_to(error, timeout_s)
        if told.is_success:
            return self._read(
                told.status_code, told.headers, told.content, prompt.max_output_tokens
            )
        now = self._clock.now()
        return openai_replies.of_error(told.status_code, told.headers, told.content, now)

    async def preflight(self) -> Ready | NotReady:
        """Asks for the list of models: it costs nothing and needs the key."""
        if problem := self._problem():
            return NotReady(problem)
        listing = await self._look_up("/models")
        if isinstance(listing, httpx2.Response):
            problem = await self._listing_problem(listing.content)
            software = preflight.software_in(listing.content)
        else:
            problem, software = preflight.of_listing(listing, self._base_url), None
        return NotReady(problem) if problem else Ready(software)

    async def close(self) -> None:
        """Closes all connections; calls in flight fail."""
        await self._client.close()

    def _chat_body(self, prompt: Prompt) -> dict[str, Any]:
        turns = [{"role": turn.role, "content": turn.text} for turn in prompt.turns]
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": "system", "content": prompt.system}, *turns],
            self._limit_field: prompt.max_output_tokens,
        }
        if prompt.wire.schema is not None:
            body["response_format"] = {"type": "json_schema", "json_schema": _form(prompt.wire)}
        return body | self._sampling

    def _responses_body(self, prompt: Prompt) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.model,
            "instructions": prompt.system,
            "input": [{"role": turn.role, "content": turn.text} for turn in prompt.turns],
            "max_output_tokens": prompt.max_output_tokens,
            "store": False,  # else OpenAI keeps prompt and answer for later calls
        }
        if prompt.wire.schema is not None:
            body["text"] = {"format": {"type": "json_schema", **_form(prompt.wire)}}
        return body | self._sampling

    async def _post(self, body: dict[str, Any]) -> httpx2.Response:
        """Send what the SDK would, through its HTTP client.

        The SDK makes each request anew from options, which takes longer than all else that a call
        costs; its address, headers and key are the same each time, and are taken over once.
        """
        request = httpx2.Request(
            "POST",
            self._url,
            headers=self._headers,
            content=to_json(body),
            extensions={"timeout": exchange.timeouts().as_dict()},
        )
        return await self._http.send(request, follow_redirects=False)  # that would be another call

    async def _look_up(self, path: str) -> httpx2.Response | Reply:
        """One GET: the response of a 2xx, and a Reply for everything else."""
        timeout_s = exchange.PREFLIGHT_TIMEOUT_S
        options: openai.RequestOptions = {
            "timeout": exchange.timeouts(),
            "follow_redirects": False,
        }
        try:
            async with fair_timeout(timeout_s):
                return await self._client.get(path, cast_to=httpx2.Response, options=options)
        except Exception as error:
            return self._reply_to(error, timeout_s)

    def _reply_to(self, error: Exception, timeout_s: float) -> Reply:
        """What a call came to that brought no 2xx."""
        if isinstance(error, openai.APIStatusError):
            told, now = error.response, self._clock.now()
            return openai_replies.of_error(told.status_code, told.headers, told.content, now)
        return exchange.reply_to(error, timeout_s, network=(openai.APIConnectionError,))

    def _problem(self) -> str | None:
        if problem := preflight.of_key(self._api_key, needed=self._at_openai):
            return problem
        if self._native and self._at_openai and WITHOUT_SCHEMAS.match(self.model):
            return preflight.of_capability(self.model)
        return None

    async def _listing_problem(self, listing: bytes) -> str | None:
        known = preflight.models_in(listing)
        if known is None:
            return f"{self._base_url} is no such API: correct `base_url`; most end in /v1"
        if not (known and self._check_model) or self.model in known or await self._has_model():
            return None
        return preflight.of_model(self.model, known, self._base_url)

    async def _has_model(self) -> bool:
        path = "/models/" + quote(self.model, safe="")  # short names work that are not listed
        return isinstance(await self._look_up(path), httpx2.Response)


def _headers(client: openai.AsyncOpenAI) -> httpx2.Headers:
    """Those of all requests, the key among them."""
    told = {**client.default_headers, **client.auth_headers}
    return httpx2.Headers({name: text for name, text in told.items() if isinstance(text, str)})


def _form(wire: WireSchema) -> dict[str, Any]:
    name = re.sub(r"[^a-zA-Z0-9_-]", "_", wire.name)[:SCHEMA_NAME_CHARS_MAX]
    return {"name": name, "schema": wire.schema, "strict": True}
