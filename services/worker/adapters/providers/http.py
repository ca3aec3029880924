"""The provider over HTTP: all APIs are asked in the same way."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlsplit

from answerbus.budget import Usage
from services.worker.adapters.providers.apis.api import (
    Api,
    HttpRequest,
    HttpResponse,
    Signer,
)
from services.worker.adapters.providers.apis.connection import ExchangeLimits
from services.worker.adapters.providers.exchange import HttpClient, proxy_for, reply_to, server_of
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import Answered, NoAnswer, Reply, Throttled, Truncated
from services.worker.ports.clock import Clock
from services.worker.ports.provider import NotReady, Readiness, Unhealthy

LIMITS = ExchangeLimits()
QUESTIONS_MAX = 20  # of one check at start


class HttpProvider:
    """See Provider; what `api` is throttled for is asked by `fallback` at once, if there is one.

    `sign` gives the headers that authorize a single request, by its bytes and the time.
    """

    def __init__(
        self,
        api: Api,
        clock: Clock,
        limits: ExchangeLimits = LIMITS,
        *,
        fallback: Api | None = None,
        sign: Signer | None = None,
    ) -> None:
        self.name, self.model = api.name, api.connection.model
        self._api, self._fallback = api, fallback
        self._clock = clock
        self._preflight_timeout_s = limits.preflight_timeout_s
        slots = api.connection.max_in_flight

        def signed(method: str, target: str, body: bytes) -> Mapping[str, str]:
            return sign(method, target, body, clock.now()) if sign else {}

        self._http = HttpClient(api.base_url, api.headers, slots, limits, sign and signed)

    async def ask(self, prompt: Prompt, *, timeout_s: float) -> Reply:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + timeout_s
        reply = await self._ask(self._api, prompt, timeout_s)
        if self._fallback is None or not isinstance(reply, Throttled):
            return reply
        begins_by = ends_at if prompt.begins_by is None else min(ends_at, prompt.begins_by)
        if loop.time() >= begins_by:
            return reply
        return await self._ask(self._fallback, prompt, ends_at - loop.time())

    async def preflight(self) -> Readiness:
        try:
            return _without_user(await self._checked(), self._api.base_url)
        except Exception as error:  # of the specification, which a plug-in may have brought
            return NotReady(
                f"the provider {self.name!r} fails in its own check ({type(error).__name__}): run "
                f"`answerbus providers check {self.name}`"
            )

    async def _checked(self) -> Readiness:
        questions = self._api.preflight()
        try:
            question = next(questions)
            for _ in range(QUESTIONS_MAX):
                found = await self._exchange(question, self._preflight_timeout_s)
                question = questions.send(found)
        except StopIteration as ended:
            return self._explained(ended.value)
        raise RecursionError  # it would ask for ever

    def _explained(self, verdict: Readiness) -> Readiness:
        """What an error says, and the proxy: it takes no connection, or gives no way on."""
        url, fault = self._api.base_url, self._http.connection_fault
        proxy = server_of(proxy_for(url) or "")
        if not isinstance(verdict, Unhealthy) or verdict.connected or not (proxy or fault):
            return verdict
        over = f" over the proxy {proxy} of the environment" if proxy else ""
        advice = "see that it runs and lets us through, or correct HTTPS_PROXY and NO_PROXY"
        return replace(verdict, why=f"no connection to {url}{over}: {fault or advice}")

    async def close(self) -> None:
        await self._http.close()

    async def _ask(self, api: Api, prompt: Prompt, timeout_s: float) -> Reply:
        try:
            found = await self._exchange(api.request(prompt), timeout_s, prompt.begins_by)
            limit = prompt.max_output_tokens
            if isinstance(found, Truncated):  # by an error, whose reader does not know the limit
                found = replace(found, limit=limit)
            if isinstance(found, HttpResponse):
                found = _counted(api.parse_response(found.status, found.headers, found.body, limit))
        except Exception as error:  # as in `preflight`
            return reply_to(error, timeout_s)
        return found if isinstance(found, Reply) else reply_to(TypeError(), timeout_s)

    async def _exchange(
        self, request: HttpRequest, timeout_s: float, begins_by: float | None = None
    ) -> HttpResponse | Reply:
        """One request: the response of a 2xx, and a Reply for everything else."""
        found = await self._http.exchange(request, timeout_s, begins_by)
        if isinstance(found, HttpResponse) and found.status // 100 != 2:
            now = self._clock.now()
            return self._api.parse_error(found.status, found.headers, found.body, now)
        return found


def _without_user(found: Readiness, url: str) -> Readiness:
    """Its sentences name the address; a password in it may be too short to be masked."""
    user = urlsplit(url).netloc.rpartition("@")[0]
    match found:
        case NotReady(remedy) if user:
            return NotReady(remedy.replace(f"{user}@", "…@"))
        case Unhealthy(why) if user:
            return replace(found, why=why.replace(f"{user}@", "…@"))
        case _:
            return found


def _counted(reply: Reply) -> Reply:
    """Without a usage of zero tokens, which no answer has: such a server does not count them."""
    if not isinstance(reply, Answered | Truncated | NoAnswer):
        return reply
    usage = reply.facts.usage
    is_nothing = usage.input_tokens == 0 and not usage.output_tokens
    if isinstance(reply, Answered) and reply.content and usage.output_tokens == 0:
        is_nothing = True
    return replace(reply, facts=replace(reply.facts, usage=Usage())) if is_nothing else reply
