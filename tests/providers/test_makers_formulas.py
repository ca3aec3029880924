"""What is charged is what the makers' published formulas give, for scripted replies of each."""

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_CEILING, Decimal
from typing import Any

import pytest
from pydantic import TypeAdapter

from answerbus.budget import Usage
from services.settings.profiles import Profile
from services.worker.adapters.providers.apis import anthropic, gemini
from services.worker.adapters.providers.apis.connection import Connection
from services.worker.adapters.providers.apis.openai import OpenAIApi
from services.worker.adapters.tariffs import tariff_of
from services.worker.core.attempt.reply import Answered, CallFacts
from services.worker.core.attempt.tariff import Tariff

NOW = datetime(2026, 11, 21, tzinfo=UTC)
REPLIES = 1_000
INPUT_MAX = 400_000
OUTPUT_MAX = 20_000


@dataclass(frozen=True)
class Told:
    """What a reply reports, as the maker bills it."""

    plain: int
    cached: int
    minutes: int  # written to a cache, for minutes or for an hour
    hour: int
    output: int  # with what is thought
    thought: int
    tier: str

    @property
    def input(self) -> int:
        return self.plain + self.cached + self.minutes + self.hour


# Dollars for a million tokens, from the makers' pages of prices (October 2026): input, cached,
# written for minutes, written for an hour, output.
Prices = tuple[str, str, str, str, str]


@dataclass(frozen=True)
class Maker:
    """A model, what its maker takes for it, and how its replies look."""

    model: dict[str, Any]
    prices: Callable[[Told], Prices]
    factors: Mapping[str, Decimal]  # of a tier, on all prices
    reply: Callable[[Told], CallFacts]
    writes: tuple[bool, bool]  # for minutes, for an hour


def openai_prices(told: Told) -> Prices:
    """GPT-5.6 Sol: prompts of more than 272,000 tokens cost twice, and 1.5 times for output."""
    is_long = told.input > 272_000
    return ("8", "0.8", "10", "10", "30") if is_long else ("4", "0.4", "5", "5", "20")


def anthropic_prices(_told: Told) -> Prices:
    """Claude Opus 4.6: a cache takes 1.25 for five minutes and 2 for an hour, and 0.1 to read."""
    return "5", "0.5", "6.25", "10", "25"


def gemini_prices(told: Told) -> Prices:
    """Gemini 2.5 Pro; `batch` leaves the price of what is cached as it is."""
    is_long = told.input > 200_000
    cached = "0.25" if is_long else "0.125"
    if told.tier == "batch":
        return ("1.25", cached, "0", "0", "7.5") if is_long else ("0.625", cached, "0", "0", "5")
    return ("2.5", cached, "0", "0", "15") if is_long else ("1.25", cached, "0", "0", "10")


def chat_reply(told: Told) -> CallFacts:
    usage = {
        "prompt_tokens": told.input,
        "completion_tokens": told.output,
        "total_tokens": told.input + told.output,
        "prompt_tokens_details": {
            "cached_tokens": told.cached,
            "cache_write_tokens": told.minutes,
        },
        "completion_tokens_details": {"reasoning_tokens": told.thought},
    }
    choice = {"message": {"content": "{}"}, "finish_reason": "stop"}
    body = {"model": "m", "choices": [choice], "usage": usage, **openai_tier(told)}
    return facts_of(openai("chat"), body)


def responses_reply(told: Told) -> CallFacts:
    usage = {
        "input_tokens": told.input,
        "output_tokens": told.output,
        "input_tokens_details": {
            "cached_tokens": told.cached,
            "cache_write_tokens": told.minutes,
        },
        "output_tokens_details": {"reasoning_tokens": told.thought},
    }
    output = [{"type": "message", "content": [{"type": "output_text", "text": "{}"}]}]
    body = {"status": "completed", "output": output, "usage": usage, **openai_tier(told)}
    return facts_of(openai("responses"), body)


def openai_tier(told: Told) -> dict[str, str]:
    return {"service_tier": "default" if told.tier == "standard" else told.tier}


def openai(api: Any) -> Callable[..., Any]:
    return OpenAIApi(Connection("m", None, 1), api=api).parse_response


def anthropic_reply(told: Told) -> CallFacts:
    """Parts are counted beside each other here."""
    usage = {
        "input_tokens": told.plain,
        "cache_read_input_tokens": told.cached,
        "cache_creation_input_tokens": told.minutes + told.hour,
        "cache_creation": {
            "ephemeral_5m_input_tokens": told.minutes,
            "ephemeral_1h_input_tokens": told.hour,
        },
        "output_tokens": told.output,
        "output_tokens_details": {"thinking_tokens": told.thought},
        "service_tier": told.tier,
    }
    content = [{"type": "text", "text": "{}"}]
    body = {"content": content, "stop_reason": "end_turn", "usage": usage}
    return facts_of(anthropic.parse_response, body)


def gemini_reply(told: Told) -> CallFacts:
    """Thoughts are counted beside the answer; a header names the tier."""
    usage = {
        "promptTokenCount": told.input,
        "cachedContentTokenCount": told.cached,
        "candidatesTokenCount": told.output - told.thought,
        "thoughtsTokenCount": told.thought,
    }
    candidate = {"content": {"parts": [{"text": "{}"}]}, "finishReason": "STOP"}
    body = {"candidates": [candidate], "usageMetadata": usage}
    return facts_of(gemini.parse_response, body, {"x-gemini-service-tier": told.tier})


def facts_of(parse: Callable[..., Any], body: Any, headers: Any = None) -> CallFacts:
    reply = parse(200, headers or {}, json.dumps(body).encode(), 10)
    assert isinstance(reply, Answered)
    return reply.facts


OPENAI_FACTORS = {
    "standard": Decimal(1),
    "flex": Decimal("0.5"),
    "priority": Decimal(2),
    "batch": Decimal("0.5"),
}
OPENAI = {"provider": "openai", "model": "gpt-5.6-sol", "service_tier": "auto"}
CLAUDE = {"provider": "anthropic", "model": "claude-opus-4-6", "prompt_cache": True}
MAKERS = {
    "openai, chat": Maker(OPENAI, openai_prices, OPENAI_FACTORS, chat_reply, (True, False)),
    "openai, responses": Maker(
        OPENAI, openai_prices, OPENAI_FACTORS, responses_reply, (True, False)
    ),
    "anthropic": Maker(
        {**CLAUDE, "prompt_cache_ttl": "1h"},
        anthropic_prices,
        {"standard": Decimal(1), "batch": Decimal("0.5")},
        anthropic_reply,
        (True, True),
    ),
    "gemini": Maker(
        {"provider": "gemini", "model": "gemini-2.5-pro"},
        gemini_prices,
        {"standard": Decimal(1), "batch": Decimal(1)},
        gemini_reply,
        (False, False),
    ),
}


def drawn(rng: random.Random, maker: Maker) -> Told:
    """A call, half of them long, with any of the parts that its maker has."""
    total = rng.choice([rng.randrange(3_000), rng.randrange(INPUT_MAX)])
    parts = {"cached": 0, "minutes": 0, "hour": 0}
    for part, exists in zip(parts, (True, *maker.writes), strict=True):
        if exists and rng.random() < 0.6:
            parts[part] = rng.randint(0, total - sum(parts.values()))
    output = rng.randrange(OUTPUT_MAX)
    thought = rng.choice([0, rng.randint(0, output)])
    tier = rng.choice([*maker.factors])
    return Told(total - sum(parts.values()), **parts, output=output, thought=thought, tier=tier)


def billed(told: Told, maker: Maker) -> int:
    """The maker's formula: each part at its price, all at the factor of the tier; rounded up."""
    plain, cached, minutes, hour, output = map(Decimal, maker.prices(told))
    micro_usd = maker.factors[told.tier] * (
        told.plain * plain
        + told.cached * cached
        + told.minutes * minutes
        + told.hour * hour
        + told.output * output
    )
    return int(micro_usd.to_integral_value(ROUND_CEILING))


def tariff(maker: Maker) -> Tariff:
    profile: Profile = TypeAdapter(Profile).validate_python(maker.model)
    found = tariff_of(profile, NOW)
    assert found is not None
    return found


@pytest.mark.parametrize("name", MAKERS)
def test_each_reply_costs_what_its_maker_bills(name: str) -> None:
    maker, rng, seen = MAKERS[name], random.Random(f"prices of {name}"), Counter[str]()
    prices = tariff(maker)
    for _ in range(REPLIES):
        told = drawn(rng, maker)
        facts = maker.reply(told)
        usage, notes = prices.priced(facts.usage, facts.service_tier)

        assert usage.micro_usd == billed(told, maker), told
        assert not notes
        assert usage.micro_usd <= prices.most(told.input, told.output), told
        assert usage.reasoning_tokens == (told.thought or None)
        seen.update([told.tier, *(part for part in ("cached", "hour") if getattr(told, part))])

    assert min(seen[part] for part in ("cached", *maker.factors)) > 100


def test_what_caches_saved_and_what_is_charged_are_together_the_price_without_caches() -> None:
    maker = MAKERS["anthropic"]
    without = Usage(input_tokens=1_000, output_tokens=10)
    full, _ = tariff(maker).priced(without, "standard")
    read, _ = tariff(maker).priced(without.model_copy(update={"cached_tokens": 800}), "standard")
    written, _ = tariff(maker).priced(
        without.model_copy(update={"cache_write_tokens": 800, "cache_write_1h_tokens": 0}),
        "standard",
    )

    assert full.micro_usd == 5_250
    assert full.cache_saved_micro_usd is None
    assert (read.micro_usd, read.cache_saved_micro_usd) == (1_650, 3_600)
    assert (written.micro_usd, written.cache_saved_micro_usd) == (6_250, -1_000)
