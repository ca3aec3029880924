"""A setting that a provider does not have is refused at start, by its name and its profile."""

from pathlib import Path
from typing import Any

import pytest
import tomli_w

from services.settings.settings import SetUpError, from_environment


@pytest.mark.parametrize(
    ("provider", "settings", "expected"),
    [
        ("gemini", {"verbosity": "low"}, "`profiles.p.verbosity` is unknown"),
        ("gemini", {"prompt_cache_key": "k"}, "`profiles.p.prompt_cache_key` is unknown"),
        ("ollama", {"service_tier": "flex"}, "`profiles.p.service_tier` is unknown"),
        ("openai", {"thinking_budget": 5}, "`profiles.p.thinking_budget` is unknown"),
        ("openai", {"prompt_cache": True}, "`profiles.p.prompt_cache` is unknown"),
        ("anthropic", {"service_tier": "flex"}, "`profiles.p.service_tier`: Input should be"),
        ("openai", {"reasoning_effort": "huge"}, "`profiles.p.reasoning_effort`: Input should be"),
        ("openai", {"flex_fallback": True}, "`profiles.p`: `flex_fallback` needs"),
        (
            "gemini",
            {"service_tier": "priority", "flex_fallback": True},
            "`profiles.p`: `flex_fallback` needs",
        ),
        (
            "gemini",
            {"reasoning_effort": "low", "thinking_budget": 5},
            "`profiles.p`: give `thinking_budget` or `reasoning_effort`",
        ),
        ("anthropic", {"thinking_budget": 5}, "`profiles.p`: `thinking_budget` is 0, or at least"),
        (
            "anthropic",
            {"thinking_budget": 2_048, "max_output_tokens": 2_048},
            "`profiles.p`: `thinking_budget` is 0, or at least",
        ),
        (
            "anthropic",
            {"thinking_budget": 2_048, "temperature": 0.5},
            "`profiles.p`: models that think take no `temperature` but 1",
        ),
        ("anthropic", {"prompt_cache_ttl": "1h"}, "`profiles.p`: `prompt_cache_ttl` needs"),
        (
            "openai",
            {"price": {"input_usd": 1, "output_usd": 1, "tiers": {"turbo": {}}}},
            "`profiles.p.price.tiers.turbo",
        ),
    ],
)
def test_it_is_named_in_one_sentence(
    tmp_path: Path, provider: str, settings: dict[str, Any], expected: str
) -> None:
    file = tmp_path / "answerbus.toml"
    profile = {"provider": provider, "model": "m", **settings}
    file.write_text(tomli_w.dumps({"profiles": {"p": profile}}), encoding="utf-8")

    with pytest.raises(SetUpError) as raised:
        from_environment(file)

    assert str(raised.value).startswith(f"Setting {expected}")
