"""The adapter to Ollama servers."""

from collections.abc import Awaitable
from typing import Any

import httpx
import ollama

from services.worker.core.prompt import Prompt
from services.worker.core.reply import Rejected, Reply
from services.worker.ports import Clock, NotReady, Ready
from services.worker.providers import exchange, ollama_replies, preflight
from services.worker.providers.response_fields import json_in

OLLAMA_BASE_URL = "http://localhost:11434"
SCHEMAS_SINCE = (0, 5)  # before, `format` could only be "json"


class OllamaProvider:
    """One profile at an Ollama server.

    `context_tokens` is the window for prompt and answer: a server takes a small one by default, and
    cuts longer prompts without a word. `think` switches the thinking of models that can on or off.
    `native` says whether the profile has its answers enforced, so that the server must be able to.
    """

    name = "ollama"

    def __init__(
        self,
        *,
        model: str,
        api_key: str | None,
        max_in_flight: int,
        clock: Clock,
        base_url: str | None = None,
        temperature: float | None = None,
        context_tokens: int | None = None,
        think: bool | None = None,
        check_model: bool = True,
        native: bool = True,
    ) -> None:
        self.model = model
        self._api_key = api_key
        self._clock = clock
        self._base_url = (base_url or OLLAMA_BASE_URL).rstrip("/")
        self._sampling = {"temperature": temperature, "num_ctx": context_tokens}
        self._think = think
        self._check_model = check_model
        self._native = native
        self._headers = {
            **exchange.UNPACKED,
            # Without one the SDK would tell any server what it finds in the environment.
            "Authorization": f"Bearer {api_key or exchange.NO_KEY}",
        }
        self._client = ollama.AsyncClient(
            host=self._base_url, **self._http_options(max_in_flight), headers=self._headers
        )

    async def ask(self, prompt: Prompt, *, timeout_s: float) -> Reply:
        """One POST to `/api/chat`."""
        turns = [{"role": turn.role, "content": turn.text} for turn in prompt.turns]
        options = {"num_predict": prompt.max_output_tokens, **self._sampling}
        call = self._client.chat(
            model=self.model,
            messages=[{"role": "system", "content": prompt.system}, *turns],
            format=prompt.wire.schema,
            options={name: value for name, value in options.items() if value is not None},
            think=self._think,
        )
        reply = await self._exchange(call, timeout_s)
        if isinstance(reply, exchange.Received):
            return ollama_replies.of_answer(
                reply.status, reply.headers, reply.body, prompt.max_output_tokens
            )
        return reply

    async def preflight(self) -> Ready | NotReady:
        """Asks what model and server can do."""
        problem = preflight.of_key(self._api_key, needed=False)
        problem = problem or await self._model_problem() or await self._version_problem()
        return Ready() if problem is None else NotReady(problem)

    async def close(self) -> None:
        """Closes all connections; calls in flight fail."""
        await self._client.close()  # type: ignore[no-untyped-call]

    def _http_options(self, max_in_flight: int) -> dict[str, Any]:
        return {
            "transport": exchange.older_transport(max_in_flight),
            "timeout": exchange.older_timeouts(),
            "event_hooks": {"response": [exchange.bound_response]},
            "follow_redirects": False,  # that would be a second call
        }

    async def _exchange(
        self, call: Awaitable[object], timeout_s: float
    ) -> exchange.Received | Reply:
        """One request: the response of a 2xx, and a Reply for everything else."""
        got = await exchange.recorded(call, timeout_s)
        if isinstance(got, exchange.Received) and got.status // 100 != 2:
            return ollama_replies.of_error(got.status, got.headers, got.body, self._clock.now())
        return got

    async def _model_problem(self) -> str | None:
        found = await self._exchange(self._client.show(self.model), exchange.PREFLIGHT_TIMEOUT_S)
        if isinstance(found, Rejected) and found.status == 404 and self._check_model:
            return await self._name_problem()
        if not isinstance(found, exchange.Received):
            return preflight.of_listing(found, self._base_url)
        match json_in(found.body):
            case {"capabilities": [*can]} if "completion" not in can:
                return f"the model {self.model!r} writes no answers: set `model` to one that does"
            case {**_unknown}:
                return None
            case _:
                return f"{self._base_url} is no such API: correct `base_url`; it ends before /api"

    async def _name_problem(self) -> str | None:
        listing = await self._exchange(self._client.list(), exchange.PREFLIGHT_TIMEOUT_S)
        if not isinstance(listing, exchange.Received):
            return preflight.of_listing(listing, self._base_url)
        known = preflight.models_in(listing.body, under="models", name="name") or frozenset()
        advice = (
            f"{self._base_url} has no model {self.model!r}: run `ollama pull {self.model}` there"
        )
        shown = ", ".join(sorted(known)[: preflight.MODELS_SHOWN_MAX])
        return f"{advice}, or set `model` to {shown}" if shown else advice

    async def _version_problem(self) -> str | None:
        """The SDK has no question for this one."""
        if not self._native:
            return None
        async with httpx.AsyncClient(**self._http_options(1), headers=self._headers) as http:
            call = http.get(f"{self._base_url}/api/version")
            found = await self._exchange(call, exchange.PREFLIGHT_TIMEOUT_S)
        told = json_in(found.body) if isinstance(found, exchange.Received) else None
        version = told.get("version") if isinstance(told, dict) else None
        if not isinstance(version, str) or not _is_before(version, SCHEMAS_SINCE):
            return None
        return (
            f"{self._base_url} is Ollama {version}, which enforces no schemas: update it, "
            'or say `dialect = "prompted"`'
        )


def _is_before(version: str, first: tuple[int, ...]) -> bool:
    """Whether a version is surely older; what cannot be read is not."""
    parts = version.split("-", maxsplit=1)[0].split(".")[: len(first)]
    return all(part.isdecimal() for part in parts) and tuple(map(int, parts)) < first
