"""What is wrong with a profile at Anthropic is found before the first call, in one sentence."""

from typing import Any

import pytest

from services.worker.adapters.providers.apis import preflight
from services.worker.adapters.providers.apis.connection import ExchangeLimits
from services.worker.ports.provider import NotReady, Ready, Unhealthy
from tests.providers.apis import ANTHROPIC
from tests.providers.calls import SECRET
from tests.providers.misbehaving import Hang, Script, answer


def model(supported: Any, lifecycle: str = "active") -> Script:
    capabilities = {"structured_outputs": {"supported": supported}}
    return answer({"id": "m", "lifecycle": lifecycle, "capabilities": capabilities})


NOT_FOUND = answer({"error": {"type": "not_found_error"}}, 404)
OTHERS = answer({"data": [{"id": "x"}, {"id": "y"}]})
READY: dict[str, tuple[tuple[Script, ...], dict[str, Any]]] = {
    "the model can do it": ((model(True),), {}),
    "it cannot, and need not": ((model(False),), {"native": False}),
    "the server says nothing of it": ((answer({"id": "m"}),), {}),
    "no single models, but listed": ((NOT_FOUND, answer({"data": [{"id": "m"}]})), {}),
    "no models at all": ((NOT_FOUND, NOT_FOUND), {}),
    "another name is fine": ((NOT_FOUND,), {"check_model": False}),
    "throttled": ((answer({}, 429),), {}),
    "down for now": ((answer({}, 529),), {}),
}


@pytest.mark.parametrize(("scripts", "options"), READY.values(), ids=READY)
async def test_a_profile_that_may_work_is_ready(
    scripts: tuple[Script, ...], options: dict[str, Any]
) -> None:
    found, server = await ANTHROPIC.preflight(*scripts, **options)

    paths = ["/v1/models/m", "/v1/models?limit=1000"][: len(scripts)]
    assert found == Ready()
    assert [(seen.method, seen.path) for seen in server.seen] == [("GET", path) for path in paths]


HASTY = ExchangeLimits(preflight_timeout_s=0.3)
NOT_READY: dict[str, tuple[tuple[Script, ...], str]] = {
    "no structured output": (
        (model(False),),
        preflight.check_capability("m"),
    ),
    "retired": (
        (model(True, "retired"),),
        "the model 'm' is retired: set `model` to a newer one",
    ),
    "a bad key": (
        (answer({"error": {"type": "authentication_error", "message": SECRET}}, 401),),
        "{url} refuses the key: put a valid one where `api_key_env` or `api_key_file` points",
    ),
    "an unknown model": ((NOT_FOUND, OTHERS), "{url} has no model 'm': set `model` to x, y"),
    "a web page": (
        (answer(b"<html>"),),
        "{url} does not serve this API: correct `base_url`; it ends before /v1",
    ),
}
UNHEALTHY: dict[str, tuple[tuple[Script, ...], str]] = {
    "no money": (
        (answer({}, 402),),
        "the account at {url} has no credit or quota left: top it up, or raise its limit",
    ),
    "silence": (
        ([Hang()],),
        "{url} did not answer in 0.3 s: check the network and `base_url`",
    ),
}


@pytest.mark.parametrize(("scripts", "remedy"), NOT_READY.values(), ids=NOT_READY)
async def test_a_profile_that_cannot_work_says_what_to_change(
    scripts: tuple[Script, ...], remedy: str
) -> None:
    found, server = await ANTHROPIC.preflight(*scripts, limits=HASTY)

    assert found == NotReady(remedy.replace("{url}", ANTHROPIC.base(server.base_url)))


@pytest.mark.parametrize(("scripts", "why"), UNHEALTHY.values(), ids=UNHEALTHY)
async def test_a_provider_that_may_come_back_makes_its_profile_unhealthy(
    scripts: tuple[Script, ...], why: str
) -> None:
    found, server = await ANTHROPIC.preflight(*scripts, limits=HASTY)

    assert found == Unhealthy(why.replace("{url}", ANTHROPIC.base(server.base_url)))


async def test_anthropic_itself_needs_a_key() -> None:
    async with ANTHROPIC.at(None, api_key=None) as provider:
        found = await provider.preflight()

    assert found == NotReady("there is no key: set the variable that `api_key_env` names")
