"""What is wrong with a profile is found before the first call, and said in one sentence."""

import socket
from typing import Any, Literal

import pytest

from services.settings.profiles import OpenAIProfile
from services.worker.adapters.profile_check import ProfileFinding, checked
from services.worker.adapters.providers.apis import preflight
from services.worker.adapters.providers.apis.connection import ExchangeLimits
from services.worker.adapters.providers.apis.openai import WITHOUT_SCHEMAS
from services.worker.ports.provider import NotReady, Ready, Unhealthy
from tests.providers.misbehaving import Close, Hang, Reset, Script, answer, misbehaving
from tests.providers.openai_calls import SECRET, provider_at

LISTED = answer({"object": "list", "data": [{"id": "m"}, {"id": "m-large"}, {"odd": 1}, None]})
OTHERS = answer({"data": [{"id": f"x-{number:02}"} for number in range(12)]})
NOT_FOUND = answer({}, 404)
QUOTA = answer({"error": {"code": "insufficient_quota"}}, 429)

READY: dict[str, tuple[Script, ...]] = {
    "the model is listed": (LISTED,),
    "a bare list": (answer([{"id": "m"}]),),
    "not listed, but there under this name": (OTHERS, answer({"id": "m:latest"})),
    "another shape": (answer({"models": "many"}),),
    "nothing listed": (answer({"data": []}),),
    "no listing": (NOT_FOUND,),
    "listing not allowed": (answer({}, 405),),
    "no permission to list": (answer({}, 403),),
    "not built": (answer({}, 501),),
    "throttled": (answer({}, 429),),
    "down for now": (answer({}, 503),),
}


@pytest.mark.parametrize("scripts", READY.values(), ids=READY)
async def test_a_profile_that_may_work_is_ready(scripts: tuple[Script, ...]) -> None:
    async with misbehaving(*scripts) as server, provider_at(server.base_url) as provider:
        found = await provider.preflight()

    paths = ["/v1/models", "/v1/models/m"][: len(scripts)]
    assert found == Ready()
    assert [(seen.method, seen.path) for seen in server.seen] == [("GET", path) for path in paths]


@pytest.mark.parametrize(
    ("owner", "software"), [("llamacpp", "llamacpp"), ("vllm", "vllm"), (["x"], None), (None, None)]
)
async def test_the_listing_says_what_serves_it(owner: object, software: str | None) -> None:
    script = answer({"data": [{"id": "m", "owned_by": owner}]})

    async with misbehaving(script) as server, provider_at(server.base_url) as provider:
        assert await provider.preflight() == Ready(software)


@pytest.mark.parametrize(
    ("dialect", "owner", "advised"),
    [
        ("native", "llamacpp", ("llama.cpp", "llama_cpp")),
        ("native", "vllm", ("vLLM", "vllm")),
        ("native", "house", None),
        ("llama_cpp", "llamacpp", None),
        ("vllm", "vllm", None),
        ("prompted", "llamacpp", None),
    ],
)
async def test_a_server_with_a_dialect_of_its_own_is_reported_with_it(
    dialect: Literal["native", "llama_cpp", "plain", "prompted", "vllm"],
    owner: str,
    advised: tuple[str, str] | None,
) -> None:
    async with misbehaving(answer({"data": [{"id": "m", "owned_by": owner}]})) as server:
        profile = OpenAIProfile(
            provider="openai", model="m", base_url=server.base_url, dialect=dialect
        )
        found = await checked("house", profile)

    advice = advised and (
        f"Profile `house`: the server is {advised[0]}, which enforces more of a schema with "
        f'`dialect = "{advised[1]}"`'
    )
    assert found == ProfileFinding(advice=advice)


SHOWN = ", ".join(f"x-{number:02}" for number in range(10))
HASTY = ExchangeLimits(preflight_timeout_s=0.3)
NOT_READY: dict[str, tuple[tuple[Script, ...], str]] = {
    "a bad key": (
        (answer({"error": {"message": SECRET}}, 401),),
        "{url} refuses the key: put a valid one where `api_key_env` or `api_key_file` points",
    ),
    "a bad key with xAI's status": (
        (answer({"code": "invalid", "error": "Incorrect API key provided: x***"}, 400),),
        "{url} refuses the key: put a valid one where `api_key_env` or `api_key_file` points",
    ),
    "an unknown model": (
        (OTHERS, NOT_FOUND),
        "{url} has no model 'm': set `model` to " + SHOWN + " or one of 2 more",
    ),
    "a redirect": (
        (answer(b"", 301, {"location": "/v2"}),),
        "{url} redirects: set `base_url` to the final address",
    ),
    "a web page": (
        (answer(b"<html>", headers={"content-type": "text/html"}),),
        "{url} does not serve this API: correct `base_url`; most end in /v1",
    ),
}
UNHEALTHY: dict[str, tuple[tuple[Script, ...], str]] = {
    "no money": (
        (QUOTA,),
        "the account at {url} has no credit or quota left: top it up, or raise its limit",
    ),
    "a broken connection": (
        ([Reset()],),
        "{url} broke the connection: correct `base_url` (http or https, port)",
    ),
    "an early end": (
        ([Close()],),
        "{url} broke the connection: correct `base_url` (http or https, port)",
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
    async with (
        misbehaving(*scripts) as server,
        provider_at(server.base_url, limits=HASTY) as provider,
    ):
        found = await provider.preflight()

    assert found == NotReady(remedy.replace("{url}", server.base_url))


@pytest.mark.parametrize(("scripts", "why"), UNHEALTHY.values(), ids=UNHEALTHY)
async def test_a_provider_that_may_come_back_makes_its_profile_unhealthy(
    scripts: tuple[Script, ...], why: str
) -> None:
    async with (
        misbehaving(*scripts) as server,
        provider_at(server.base_url, limits=HASTY) as provider,
    ):
        found = await provider.preflight()

    assert found == Unhealthy(why.replace("{url}", server.base_url))


async def test_no_server_is_named_by_its_address() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        async with provider_at(url) as provider:
            found = await provider.preflight()

    why = f"there is no server at {url}: start it, or correct `base_url`"
    assert found == Unhealthy(why, connected=False)


KEYS: list[tuple[dict[str, Any], str]] = [
    (
        {"api_key": None, "base_url": None},
        "there is no key: set the variable that `api_key_env` names",
    ),
    (
        {"api_key": f"{SECRET}\n", "base_url": "http://unused.invalid/v1"},
        "the key has a line break or the like: correct what `api_key_env` points to",
    ),
]


@pytest.mark.parametrize(("options", "remedy"), KEYS)
async def test_a_key_that_cannot_be_sent_is_found_without_asking(
    options: dict[str, Any], remedy: str
) -> None:
    async with provider_at(**options) as provider:
        assert await provider.preflight() == NotReady(remedy)


@pytest.mark.parametrize("model", ["gpt-4", "gpt-4-turbo", "gpt-3.5-turbo-0125", "o1-mini"])
async def test_a_model_from_before_structured_output_is_found_without_asking(model: str) -> None:
    async with provider_at(None, model=model) as provider:
        assert await provider.preflight() == NotReady(preflight.check_capability(model))


@pytest.mark.parametrize("model", ["gpt-4.1", "gpt-4o", "gpt-4o-mini", "gpt-5", "o1", "o3-mini"])
async def test_newer_models_are_not_mistaken_for_those(model: str) -> None:
    assert WITHOUT_SCHEMAS.match(model) is None


async def test_a_server_of_ones_own_needs_no_key_and_deployments_need_no_listed_name() -> None:
    async with (
        misbehaving(OTHERS) as server,
        provider_at(server.base_url, api_key=None, check_model=False) as provider,
    ):
        assert await provider.preflight() == Ready()

    assert len(server.seen) == 1
