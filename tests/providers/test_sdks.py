"""What we send is what the makers' SDKs send, and no SDK is loaded for it."""

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest

from services.worker.adapters.providers.apis.anthropic import CACHE_FOR_HOUR
from services.worker.core.attempt.reply import Answered
from tests.providers.apis import EACH
from tests.providers.calls import LIMIT_S, PROMPT, SECRET, Api
from tests.providers.misbehaving import Seen, misbehaving
from tests.providers.sdk_calls import CALLS

TUNED = {
    "service_tier": "flex",
    "reasoning_effort": "low",
    "verbosity": "low",
    "prompt_cache_key": "handbook",
}
SET: dict[str, dict[str, Any]] = {
    "openai": TUNED,
    "openai-responses": TUNED,
    "anthropic": {
        "prompt_cache": CACHE_FOR_HOUR,
        "service_tier": "standard_only",
        "reasoning_effort": "low",
        "thinking_budget": 1_024,
    },
    "gemini": {"thinking_budget": 9, "service_tier": "flex"},
    "ollama": {"context_tokens": 8192, "think": False},
}
# How a client packs and keeps what it exchanges, what it reads, and how it names itself: these are
# for each to say, and no server answers otherwise for them.
OF_A_CLIENT = {"accept", "accept-encoding", "connection", "content-length", "user-agent"}
OF_AN_SDK = ("x-stainless-", "x-goog-api-client")  # whose version and machine it is
SDKS = {
    *("anthropic", "google.genai", "httpx", "ollama", "openai"),
    *("azure.identity", "botocore", "google.auth"),  # of credentials
}


def headers_of(seen: Seen) -> dict[str, str]:
    """Those that a server may act on: the key, the API's version, and the kind of the body."""
    return {
        name: text
        for name, text in seen.headers.items()
        if name not in OF_A_CLIENT and not name.startswith(OF_AN_SDK)
    }


@EACH
async def test_a_call_is_the_one_that_the_sdk_would_make(api: Api) -> None:
    async with misbehaving(api.whole) as server:
        reported = await asyncio.to_thread(CALLS[api.sdk], api.base(server.base_url))
        options = SET.get(api.sdk, {})
        async with api.at(server.base_url, temperature=0.5, **options) as provider:
            reply = await provider.ask(PROMPT, timeout_s=LIMIT_S)

    theirs, ours = server.seen
    assert (ours.method, ours.path) == (theirs.method, theirs.path)
    assert headers_of(ours) == headers_of(theirs)
    assert json.loads(ours.body) == json.loads(theirs.body)
    assert isinstance(reply, Answered)
    assert reply.content == reported
    assert SECRET in " ".join(headers_of(ours).values())
    assert ours.headers["user-agent"].startswith("answerbus/")


@EACH
@pytest.mark.parametrize("key", ["schlüssel", "a\nb", "", None])
async def test_a_key_that_no_header_can_carry_is_not_sent(api: Api, key: str | None) -> None:
    """The preflight says so; a call all the same does not fail."""
    reply, server = await api.ask(api.whole, api_key=key)

    assert reply == api.good_reply
    assert not {"authorization", "x-api-key", "x-goog-api-key"} & server.seen[0].headers.keys()


def test_a_provider_is_built_without_any_sdk() -> None:
    """They take up to 1.5 s and 36 MiB to load."""
    script = (
        "import sys\n"
        "from tests.providers.apis import APIS\n"
        "from services.worker.adapters import backends, building\n"
        "from services.worker.adapters.providers.http import HttpProvider\n"
        "from tests.providers.calls import StoppedClock\n"
        "for api in APIS:\n"
        "    HttpProvider(api.specified('http://h/v1'), StoppedClock())\n"
        f"print(sorted({SDKS!r} & sys.modules.keys()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stdout == "[]\n"
