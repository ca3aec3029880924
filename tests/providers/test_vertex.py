"""Google Vertex: places in paths, tokens in the place of keys, regions without a model, prices."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import TypeAdapter

from services.settings.profiles import Profile, ReachedProfile
from services.worker.adapters.building import connection_of
from services.worker.adapters.providers.apis.api import Api
from services.worker.adapters.providers.http import HttpProvider
from services.worker.adapters.providers.kinds.known import kind_of
from services.worker.adapters.tariffs import tariff_of
from services.worker.core.attempt.reply import Answered
from services.worker.ports.provider import NotReady, Readiness, Ready
from tests.providers.apis import ANTHROPIC, GEMINI
from tests.providers.calls import LIMIT_S, PROMPT, SCHEMA, SECRET, StoppedClock
from tests.providers.misbehaving import Script, Seen, answer, misbehaving

PLACE = "/v1/projects/our-project/locations/europe-west1/publishers"
BOTH = pytest.mark.parametrize(
    ("provider", "model", "maker", "verb", "counting"),
    [
        (
            "vertex",
            "gemini-2.5-flash",
            GEMINI,
            f"{PLACE}/google/models/gemini-2.5-flash:generateContent",
            f"{PLACE}/google/models/gemini-2.5-flash:countTokens",
        ),
        (
            "vertex_anthropic",
            "claude-sonnet-4-5@20250929",
            ANTHROPIC,
            f"{PLACE}/anthropic/models/claude-sonnet-4-5@20250929:rawPredict",
            f"{PLACE}/anthropic/models/count-tokens:rawPredict",
        ),
    ],
    ids=["gemini", "anthropic"],
)


def profile(provider: str, model: str, **table: Any) -> ReachedProfile:
    place = {"project": "our-project", "region": "europe-west1"}
    given = {"provider": provider, "model": model, **place, **table}
    found: Profile = TypeAdapter(Profile).validate_python(given)
    assert isinstance(found, ReachedProfile)
    return found


def api_of(found: ReachedProfile) -> Api:
    return kind_of(found).api(found, connection_of(found, SECRET))


async def asked(
    provider: str, model: str, *scripts: Script, **table: Any
) -> tuple[Readiness, object, list[Seen]]:
    async with misbehaving(*scripts) as server:
        found = profile(provider, model, base_url=server.base_url.removesuffix("/v1"), **table)
        client = HttpProvider(api_of(found), StoppedClock())
        readiness = await client.preflight()
        reply = await client.ask(PROMPT, timeout_s=LIMIT_S)
        await client.close()
    return readiness, reply, server.seen


@BOTH
async def test_a_model_is_asked_at_its_place_with_a_token(
    provider: str, model: str, maker: Any, verb: str, counting: str
) -> None:
    readiness, reply, (counted, call) = await asked(
        provider, model, answer({"totalTokens": 1}), answer(maker.good)
    )

    assert readiness == Ready()
    assert isinstance(reply, Answered)
    assert [counted.path, call.path] == [counting, verb]
    assert call.headers["authorization"] == f"Bearer {SECRET}"
    assert not {"x-goog-api-key", "anthropic-version"} & call.headers.keys()
    body = json.loads(call.body)
    if provider == "vertex":
        assert body["generationConfig"]["responseJsonSchema"] == SCHEMA
    else:
        assert body["output_config"]["format"]["schema"] == SCHEMA
        assert (body["anthropic_version"], "model" in body) == ("vertex-2023-10-16", False)


@BOTH
@pytest.mark.parametrize(
    ("status", "fault"),
    [
        (404, "the region europe-west1 has no model {model!r} for the project our-project: "),
        (403, "the project our-project refuses the identity of the credential: "),
        (401, "refuses the token of the credential `google`: "),
    ],
)
async def test_what_is_wrong_at_start_is_one_sentence(
    provider: str, model: str, maker: Any, verb: str, counting: str, status: int, fault: str
) -> None:
    error = {"error": {"code": status, "message": "no", "status": "NOT_FOUND"}}
    readiness, _, _ = await asked(provider, model, answer(error, status))

    assert isinstance(readiness, NotReady)
    assert fault.format(model=model) in readiness.remedy


@pytest.mark.parametrize("region", ["global", "europe-west4"])
async def test_a_region_that_counts_no_tokens_of_anthropics_models_proves_nothing(
    region: str,
) -> None:
    error = {"error": {"code": 404, "message": "no", "status": "NOT_FOUND"}}
    script, model = answer(error, 404), "claude-sonnet-4-5@20250929"
    readiness, _, _ = await asked("vertex_anthropic", model, script, region=region)

    assert readiness == Ready()


@BOTH
def test_regions_have_addresses_and_the_world_has_one(
    provider: str, model: str, maker: Any, verb: str, counting: str
) -> None:
    regional, everywhere = (
        api_of(profile(provider, model, region=region)).base_url
        for region in ("europe-west4", "global")
    )

    assert regional == "https://europe-west4-aiplatform.googleapis.com"
    assert everywhere == "https://aiplatform.googleapis.com"


@BOTH
def test_there_are_prices(provider: str, model: str, maker: Any, verb: str, counting: str) -> None:
    assert tariff_of(profile(provider, model), datetime(2026, 11, 26, tzinfo=UTC)) is not None
