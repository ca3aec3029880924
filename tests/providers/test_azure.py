"""Azure OpenAI: keys and tokens, deployments that no list has, filters, prices."""

import json
from datetime import UTC, datetime
from typing import Any

import openai
import pytest
from pydantic import TypeAdapter

from services.settings.profiles import AzureProfile, Profile
from services.worker.adapters.building import connection_of
from services.worker.adapters.providers.apis.api import Api
from services.worker.adapters.providers.http import HttpProvider
from services.worker.adapters.providers.kinds.azure import AzureKind
from services.worker.adapters.tariffs import tariff_of
from services.worker.core.attempt.reply import Refused, Rejected
from services.worker.ports.provider import NotReady, Readiness, Ready
from tests.providers.calls import LIMIT_S, PROMPT, SECRET, StoppedClock
from tests.providers.misbehaving import Script, answer, misbehaving
from tests.providers.openai_calls import GOOD, GOOD_REPLY

NOW = datetime(2026, 11, 26, tzinfo=UTC)
NO_DEPLOYMENT = {
    "error": {"code": "DeploymentNotFound", "message": "The API deployment does not exist."}
}
FILTERED = {
    "error": {
        "code": "content_filter",
        "status": 400,
        "innererror": {"code": "ResponsibleAIPolicyViolation"},
    }
}
# As Azure does it: models that could be deployed, and none of the deployments.
LISTED = answer({"object": "list", "data": [{"id": "gpt-4o-mini-2024-07-18"}]})
EMPTY = answer({"error": {"code": "empty_array", "param": "messages", "message": "[]"}}, 400)


def profile(**table: Any) -> AzureProfile:
    return AzureProfile.model_validate({"provider": "azure", "model": "our-mini", **table})


def api_at(base_url: str, **table: Any) -> Api:
    found = profile(base_url=base_url, **table)
    return AzureKind().api(found, connection_of(found, SECRET))


async def preflight(*scripts: Script, **table: Any) -> tuple[Readiness, list[str]]:
    async with misbehaving(*scripts) as server:
        provider = HttpProvider(api_at(server.base_url, **table), StoppedClock())
        found = await provider.preflight()
        await provider.close()
    return found, [f"{seen.method} {seen.path}" for seen in server.seen]


def test_a_resource_is_an_address() -> None:
    found = profile(resource="team-eu")
    api = AzureKind().api(found, connection_of(found, SECRET))

    assert api.base_url == "https://team-eu.openai.azure.com/openai/v1"


@pytest.mark.parametrize(
    "table", [{}, {"resource": "a", "base_url": "https://h"}, {"resource": "a/b"}]
)
def test_a_profile_says_once_where_it_is(table: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="resource"):
        profile(**table)


@pytest.mark.parametrize(
    ("table", "name", "value"),
    [
        ({}, "api-key", SECRET),
        ({"credential": "azure"}, "authorization", f"Bearer {SECRET}"),
    ],
)
async def test_keys_and_tokens_have_their_own_headers(
    table: dict[str, Any], name: str, value: str
) -> None:
    async with misbehaving(answer(GOOD, headers={"x-request-id": "req_1"})) as server:
        provider = HttpProvider(api_at(server.base_url, **table), StoppedClock())
        reply = await provider.ask(PROMPT, timeout_s=LIMIT_S)
        await provider.close()

    (seen,) = server.seen
    assert reply == GOOD_REPLY
    assert {one for one in ("api-key", "authorization") if one in seen.headers} == {name}
    assert seen.headers[name] == value
    body = json.loads(seen.body)
    assert (body["model"], body["max_completion_tokens"]) == ("our-mini", 77)
    assert "max_tokens" not in body


async def test_a_call_is_the_one_of_the_makers_sdk_with_a_token() -> None:
    """As Azure documents it for the v1 API: OpenAI's own client, with a token for a key."""
    async with misbehaving(answer(GOOD)) as server:
        client = openai.AsyncOpenAI(api_key=SECRET, base_url=server.base_url, max_retries=0)
        await client.models.with_raw_response.list()
        provider = HttpProvider(api_at(server.base_url, credential="azure"), StoppedClock())
        await provider.preflight()
        await provider.close()
        await client.close()

    theirs, ours, _ = server.seen
    assert (ours.method, ours.path) == (theirs.method, theirs.path)
    assert ours.headers["authorization"] == theirs.headers["authorization"]


@pytest.mark.parametrize(
    ("table", "asked"),
    [({}, "/v1/chat/completions"), ({"api": "responses"}, "/v1/responses")],
)
async def test_a_deployment_that_no_list_has_is_ready(table: dict[str, Any], asked: str) -> None:
    found, seen = await preflight(LISTED, EMPTY, **table)

    assert found == Ready()
    assert seen == ["GET /v1/models", f"POST {asked}"]


async def test_a_deployment_that_is_not_there_is_named() -> None:
    found, _ = await preflight(LISTED, answer(NO_DEPLOYMENT, 404))

    assert isinstance(found, NotReady)
    assert found.remedy.endswith(
        "has no deployment 'our-mini': set `model` to the name of one, which need not be that of "
        "its model"
    )
    assert await preflight(LISTED, check_model=False) == (Ready(), ["GET /v1/models"])


async def test_a_refused_key_is_named() -> None:
    found, _ = await preflight(answer({"error": {"code": "401"}}, 401))

    assert isinstance(found, NotReady)
    assert "refuses the key" in found.remedy


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (400, FILTERED, Refused),
        (404, NO_DEPLOYMENT, Rejected),
        (401, {"error": {"code": "invalid_token"}}, Rejected),
    ],
)
def test_its_errors_are_read(status: int, body: dict[str, Any], expected: type) -> None:
    reply = api_at("http://h/v1").parse_error(status, {}, json.dumps(body).encode(), NOW)

    assert isinstance(reply, expected)
    if isinstance(reply, Rejected):
        assert reply.scope == "profile"


def test_a_deployment_is_priced_as_the_model_behind_it() -> None:
    priced, unknown = profile(resource="r1", priced_as="gpt-4o-mini"), profile(resource="r1")
    checked: Profile = TypeAdapter(Profile).validate_python(priced.model_dump(exclude_unset=True))

    assert tariff_of(checked, NOW) is not None
    assert tariff_of(unknown, NOW) is None
