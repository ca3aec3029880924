"""What is wrong with a profile at Gemini is found before the first call, in one sentence."""

from typing import Any

import pytest

from services.worker.adapters.providers.apis import preflight
from services.worker.adapters.providers.apis.connection import ExchangeLimits
from services.worker.ports.provider import NotReady, Ready, Unhealthy
from tests.providers.apis import GEMINI
from tests.providers.misbehaving import Hang, Script, answer


def model(*methods: str) -> Script:
    return answer({"name": "models/m", "supportedGenerationMethods": list(methods)})


NOT_FOUND = answer({"error": {"status": "NOT_FOUND"}}, 404)
OTHERS = answer({"models": [{"name": "models/x"}, {"name": "models/y"}]})
READY: dict[str, tuple[tuple[Script, ...], dict[str, Any]]] = {
    "the model can do it": ((model("generateContent", "countTokens"),), {}),
    "the server says nothing of it": ((answer({"name": "models/m"}),), {}),
    "no single models, but listed": ((NOT_FOUND, answer({"models": [{"name": "models/m"}]})), {}),
    "no models at all": ((NOT_FOUND, NOT_FOUND), {}),
    "another name is fine": ((NOT_FOUND,), {"check_model": False}),
    "throttled": ((answer({}, 429),), {}),
    "down for now": ((answer({}, 503),), {}),
}


@pytest.mark.parametrize(("scripts", "options"), READY.values(), ids=READY)
async def test_a_profile_that_may_work_is_ready(
    scripts: tuple[Script, ...], options: dict[str, Any]
) -> None:
    found, server = await GEMINI.preflight(*scripts, **options)

    paths = ["/v1/models/m", "/v1/models?pageSize=1000"][: len(scripts)]
    assert found == Ready()
    assert [(seen.method, seen.path) for seen in server.seen] == [("GET", path) for path in paths]


INVALID = {"error": {"details": [{"reason": "API_KEY_INVALID"}], "status": "INVALID_ARGUMENT"}}
HASTY = ExchangeLimits(preflight_timeout_s=0.3)
NOT_READY: dict[str, tuple[tuple[Script, ...], str]] = {
    "no text": (
        (model("embedContent"),),
        "the model 'm' writes no answers: set `model` to one that does",
    ),
    "a bad key": (
        (answer(INVALID, 400),),
        "{url} refuses the key: put a valid one where `api_key_env` or `api_key_file` points",
    ),
    "an unknown model": ((NOT_FOUND, OTHERS), "{url} has no model 'm': set `model` to x, y"),
    "a web page": (
        (answer(b"<html>"),),
        "{url} does not serve this API: correct `base_url`; it ends before /v1",
    ),
}
UNHEALTHY: dict[str, tuple[tuple[Script, ...], str]] = {
    "silence": (
        ([Hang()],),
        "{url} did not answer in 0.3 s: check the network and `base_url`",
    ),
}


@pytest.mark.parametrize(("scripts", "remedy"), NOT_READY.values(), ids=NOT_READY)
async def test_a_profile_that_cannot_work_says_what_to_change(
    scripts: tuple[Script, ...], remedy: str
) -> None:
    found, server = await GEMINI.preflight(*scripts, limits=HASTY)

    assert found == NotReady(remedy.replace("{url}", GEMINI.base(server.base_url)))


@pytest.mark.parametrize(("scripts", "why"), UNHEALTHY.values(), ids=UNHEALTHY)
async def test_a_provider_that_may_come_back_makes_its_profile_unhealthy(
    scripts: tuple[Script, ...], why: str
) -> None:
    found, server = await GEMINI.preflight(*scripts, limits=HASTY)

    assert found == Unhealthy(why.replace("{url}", GEMINI.base(server.base_url)))


async def test_a_model_without_json_mode_is_found_without_asking() -> None:
    async with GEMINI.at("http://x", model="gemma-3-27b-it") as provider:
        found = await provider.preflight()

    assert found == NotReady(preflight.check_capability("gemma-3-27b-it"))


async def test_google_itself_needs_a_key() -> None:
    async with GEMINI.at(None, api_key=None) as provider:
        found = await provider.preflight()

    assert found == NotReady("there is no key: set the variable that `api_key_env` names")
