"""What we send is what the makers' SDKs send, and their clients here ask nobody."""

import asyncio
import json
from typing import Any

import pytest

from services.worker.adapters.providers.sdks import headers_of
from services.worker.core.attempt.reply import Answered
from tests.providers.apis import APIS
from tests.providers.calls import LIMIT_S, PROMPT, SECRET, Api
from tests.providers.misbehaving import Seen, misbehaving
from tests.providers.sdk_calls import CALLS

EACH = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
SET: dict[str, dict[str, Any]] = {
    "gemini": {"thinking_budget": 9},
    "ollama": {"context_tokens": 8192, "think": False},
}
# How a client packs, keeps and times what it exchanges, which is for each to say.
OF_A_CLIENT = {"connection", "content-length", "accept-encoding"}
OF_A_CLIENT |= {"x-stainless-timeout", "x-stainless-read-timeout"}


def request_of(seen: Seen) -> tuple[str, str, dict[str, str], Any]:
    headers = {name: text for name, text in seen.headers.items() if name not in OF_A_CLIENT}
    return seen.method, seen.path, headers, json.loads(seen.body)


@EACH
async def test_a_call_is_the_one_that_the_sdk_would_make(api: Api) -> None:
    async with misbehaving(api.whole) as server:
        reported = await asyncio.to_thread(CALLS[api.name], api.base(server.base_url))
        options = SET.get(api.name, {})
        async with api.at(server.base_url, temperature=0.5, **options) as provider:
            reply = await provider.ask(PROMPT, timeout_s=LIMIT_S)

    theirs, ours = server.seen
    assert request_of(ours) == request_of(theirs)
    assert isinstance(reply, Answered)
    assert reply.content == reported


@EACH
async def test_an_sdk_makes_its_headers_without_a_request(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with misbehaving(api.whole) as server:
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, server.base_url)
        headers = headers_of(api.specified(server.base_url))

    assert SECRET in " ".join(headers.values())
    assert server.connections == 0


@EACH
def test_headers_from_the_environment_are_not_sent(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may hold a key for another server, and nothing masks them."""
    expected = headers_of(api.specified("http://h/v1"))
    for maker in ("OPENAI", "ANTHROPIC", "GEMINI", "GOOGLE", "OLLAMA"):
        headers = "X-Token: s3cret-4711\nAuthorization: s3cret-4711\nx-api-key: s3cret-4711"
        monkeypatch.setenv(f"{maker}_CUSTOM_HEADERS", headers)
        for name in ("AUTH_TOKEN", "API_KEY", "ORG_ID", "PROJECT_ID", "ADMIN_KEY", "PROFILE"):
            monkeypatch.setenv(f"{maker}_{name}", "s3cret-4711")

    assert headers_of(api.specified("http://h/v1")) == expected


@EACH
@pytest.mark.parametrize("key", ["schlüssel", "a\nb", ""])
async def test_a_key_that_no_header_can_carry_is_not_sent(api: Api, key: str) -> None:
    """The preflight says so; a call all the same does not fail at building a client."""
    reply, server = await api.ask(api.whole, api_key=key)

    assert reply == api.good_reply
    assert SECRET not in " ".join(server.seen[0].headers.values())
