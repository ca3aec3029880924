"""Service tiers over HTTP: what names the tier, and a flex tier that has no room."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from pydantic import TypeAdapter

from services.settings.profiles import OpenAIProfile, Profile
from services.worker.adapters import backends
from services.worker.adapters.profile_check import ProfileFinding, checked
from services.worker.adapters.providers.kinds.openai import OpenAIKind
from services.worker.core.attempt.reply import Answered, Reply, Throttled, is_counted
from services.worker.ports.provider import Provider
from tests.providers.apis import ANTHROPIC, GEMINI, OPENAI, RESPONSES
from tests.providers.calls import LIMIT_S, PROMPT, Api, StoppedClock
from tests.providers.misbehaving import When, answer, misbehaving

LATE_S = 0.3  # until a permit ends, long enough for a request to be sent
NO_ROOM = answer({"error": {"code": "resource_unavailable"}}, status=429)
FLEX: dict[str, Any] = {"service_tier": "flex", "flex_fallback": True}


@asynccontextmanager
async def provider_of(api: Api, url: str, **settings: Any) -> AsyncIterator[Provider]:
    """As the worker builds it of a profile."""
    named = {"provider": api.dialect, "model": "m", "base_url": api.base(url), **settings}
    given = api.options | named
    profile: Profile = TypeAdapter(Profile).validate_python(given)
    backend = backends.build({"p": profile}, StoppedClock())["p"]
    try:
        yield backend.provider
    finally:
        await backend.provider.close()


def served_by(reply: Reply) -> str | None:
    assert isinstance(reply, Answered)
    return reply.facts.service_tier


@pytest.mark.parametrize(
    ("api", "changes", "headers", "expected"),
    [
        (OPENAI, {"service_tier": "flex"}, {}, "flex"),
        (OPENAI, {"service_tier": "default"}, {}, "standard"),
        (OPENAI, {"service_tier": ["flex"]}, {}, None),
        (OPENAI, {}, {}, None),
        (RESPONSES, {"service_tier": "priority"}, {}, "priority"),
        (ANTHROPIC, {"usage": {"service_tier": "batch"}}, {}, "batch"),
        (GEMINI, {"usageMetadata": {"serviceTier": "FLEX"}}, {}, "flex"),
        (GEMINI, {}, {"x-gemini-service-tier": "standard"}, "standard"),
    ],
)
async def test_the_tier_is_the_one_that_the_reply_names(
    api: Api, changes: dict[str, Any], headers: dict[str, str | bytes], expected: str | None
) -> None:
    reply, _ = await api.ask(answer({**api.good, **changes}, headers=headers))

    assert served_by(reply) == expected


@pytest.mark.parametrize(
    ("api", "usual"), [(OPENAI, "default"), (RESPONSES, "default"), (GEMINI, "standard")]
)
async def test_a_call_for_which_flex_has_no_room_goes_to_the_standard_tier_if_that_is_set(
    api: Api, usual: str
) -> None:
    member = "serviceTier" if api is GEMINI else "service_tier"
    async with (
        misbehaving(NO_ROOM, api.whole) as server,
        provider_of(api, server.base_url, **FLEX) as provider,
    ):
        reply = await provider.ask(PROMPT, timeout_s=LIMIT_S)

    first, second = (json.loads(seen.body) for seen in server.seen)
    assert reply == api.good_reply
    assert (first[member], second[member]) == ("flex", usual)
    assert {**first, member: None} == {**second, member: None}


async def test_without_that_it_is_throttled_and_not_counted() -> None:
    settings = {**FLEX, "flex_fallback": False}
    async with (
        misbehaving(NO_ROOM, OPENAI.whole) as server,
        provider_of(OPENAI, server.base_url, **settings) as provider,
    ):
        reply = await provider.ask(PROMPT, timeout_s=LIMIT_S)

    assert reply == Throttled(None)
    assert not is_counted(reply)
    assert len(server.seen) == 1


async def test_after_its_permit_no_call_is_made_in_the_standard_tier() -> None:
    told, loop = asyncio.Event(), asyncio.get_running_loop()
    async with (
        misbehaving([When(told), *NO_ROOM], OPENAI.whole) as server,
        provider_of(OPENAI, server.base_url, **FLEX) as provider,
    ):
        begins_by = loop.time() + LATE_S
        loop.call_at(begins_by, told.set)
        reply = await provider.ask(replace(PROMPT, begins_by=begins_by), timeout_s=LIMIT_S)

    assert (reply, len(server.seen)) == (Throttled(None), 1)


async def test_a_standard_tier_without_room_throttles_too() -> None:
    async with (
        misbehaving(NO_ROOM, NO_ROOM) as server,
        provider_of(OPENAI, server.base_url, **FLEX) as provider,
    ):
        assert await provider.ask(PROMPT, timeout_s=LIMIT_S) == Throttled(None)

    assert len(server.seen) == 2


@pytest.mark.parametrize(
    ("tier", "priced", "is_named"),
    [("priority", "flex", True), ("flex", "flex", False), ("auto", "flex", False)],
)
async def test_a_tier_without_a_price_is_reported(
    tier: str, priced: str, *, is_named: bool
) -> None:
    price = {"input_usd": 1, "output_usd": 2}
    table: dict[str, Any] = {"provider": "openai", "model": "m", "service_tier": tier}
    async with misbehaving(answer({"data": [{"id": "m"}]})) as server:
        table |= {"base_url": server.base_url, "price": {**price, "tiers": {priced: price}}}
        found = await checked("house", TypeAdapter(Profile).validate_python(table))

    advice = (
        "Profile `house`: its service tier `priority` has no price, so that budgets count its "
        "calls at the standard one: set `price`, with `tiers.priority`"
    )
    assert found == ProfileFinding(advice=advice if is_named else None)


@pytest.mark.parametrize(
    ("base_url", "expected"), [(None, "default"), ("http://localhost:1/v1", None)]
)
def test_at_openai_itself_the_standard_tier_is_asked_for_by_name(
    base_url: str | None, expected: str | None
) -> None:
    """Else the project's settings would say what a call costs."""
    found = OpenAIProfile(provider="openai", model="m", base_url=base_url)

    assert OpenAIKind().fields(found)["service_tier"] == expected
