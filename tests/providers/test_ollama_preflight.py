"""What is wrong with a profile at an Ollama server is found before the first call."""

import socket
from typing import Any

import pytest

from services.worker.adapters.providers.apis.connection import ExchangeLimits
from services.worker.ports.provider import NotReady, Ready, Unhealthy
from tests.providers.apis import OLLAMA
from tests.providers.misbehaving import Hang, Script, answer

SHOWN = answer({"capabilities": ["completion", "tools"], "details": {}})
NOT_FOUND = answer({"error": "model 'm' not found"}, 404)


def version(text: Any) -> Script:
    return answer({"version": text})


READY: dict[str, tuple[tuple[Script, ...], dict[str, Any]]] = {
    "model and server can do it": ((SHOWN, version("0.17.2")), {}),
    "an old server says no capabilities": ((answer({"details": {}}), version("0.5.0")), {}),
    "a release candidate": ((SHOWN, version("0.5.0-rc1")), {}),
    "an odd version": ((SHOWN, version("main")), {}),
    "built from source": ((SHOWN, version("0.0.0")), {}),
    "no version": ((SHOWN, answer({}, 404)), {}),
    "an old server, and nothing to enforce": ((SHOWN,), {"native": False}),
    "another name is fine": ((NOT_FOUND, version("0.9.1")), {"check_model": False}),
}


@pytest.mark.parametrize(("scripts", "options"), READY.values(), ids=READY)
async def test_a_profile_that_may_work_is_ready(
    scripts: tuple[Script, ...], options: dict[str, Any]
) -> None:
    found, server = await OLLAMA.preflight(*scripts, **options)

    paths = ["/api/show", "/api/version"][: len(scripts)]
    assert found == Ready()
    assert [seen.path for seen in server.seen] == paths


TAGS = answer({"models": [{"name": "x:latest"}, {"name": "y:7b"}]})
TOO_OLD = (
    '{url} is Ollama 0.4.7, which enforces no schemas: update it, or say `dialect = "prompted"`'
)
HASTY = ExchangeLimits(preflight_timeout_s=0.3)
NOT_READY: dict[str, tuple[tuple[Script, ...], str]] = {
    "too old a server": (
        (SHOWN, version("0.4.7")),
        TOO_OLD,
    ),
    "a model for embeddings": (
        (answer({"capabilities": ["embedding"]}),),
        "the model 'm' writes no answers: set `model` to one that does",
    ),
    "an unknown model": (
        (NOT_FOUND, TAGS),
        "{url} has no model 'm': run `ollama pull m` there, or set `model` to x:latest, y:7b",
    ),
    "no models at all": (
        (NOT_FOUND, answer({"models": []})),
        "{url} has no model 'm': run `ollama pull m` there",
    ),
    "a bad key": (
        (answer({"error": "unauthorized"}, 401),),
        "{url} refuses the key: put a valid one where `api_key_env` or `api_key_file` points",
    ),
    "a web page": (
        (answer(b"<html>"),),
        "{url} does not serve this API: correct `base_url`; it ends before /api",
    ),
}
UNHEALTHY: dict[str, tuple[tuple[Script, ...], str]] = {
    "silence": (
        ([Hang()],),
        "{url} did not answer in 0.3 s: check the network and `base_url`",
    ),
}


@pytest.mark.parametrize("case", NOT_READY)
async def test_a_profile_that_cannot_work_says_what_to_change(case: str) -> None:
    scripts, remedy = NOT_READY[case]
    found, server = await OLLAMA.preflight(*scripts, limits=HASTY)

    assert found == NotReady(remedy.replace("{url}", OLLAMA.base(server.base_url)))


@pytest.mark.parametrize(("scripts", "why"), UNHEALTHY.values(), ids=UNHEALTHY)
async def test_a_provider_that_may_come_back_makes_its_profile_unhealthy(
    scripts: tuple[Script, ...], why: str
) -> None:
    found, server = await OLLAMA.preflight(*scripts, limits=HASTY)

    assert found == Unhealthy(why.replace("{url}", OLLAMA.base(server.base_url)))


async def test_no_server_is_named_by_its_address() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        async with OLLAMA.at(url) as provider:
            found = await provider.preflight()

    why = f"there is no server at {url}: start it, or correct `base_url`"
    assert found == Unhealthy(why, connected=False)
