"""A profile in the settings becomes the adapter and the dialect that it names."""

from typing import Any

import pytest
from pydantic import TypeAdapter

from services.settings.profiles import Profile
from services.settings.settings import SetUpError
from services.worker.adapters import backends
from services.worker.planning.planner import Backend
from tests.providers.calls import StoppedClock
from tests.providers.misbehaving import answer, misbehaving

KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY")


def built(**table: Any) -> Backend:
    profile: Profile = TypeAdapter(Profile).validate_python({"model": "m", **table})
    return backends.build({"mine": profile}, StoppedClock())["mine"]


@pytest.mark.parametrize(
    ("provider", "dialect"),
    [
        ("openai", "openai"),
        ("anthropic", "anthropic"),
        ("gemini", "gemini"),
        ("ollama", "ollama"),
    ],
)
async def test_each_provider_has_its_dialect_unless_the_profile_says_prompted(
    provider: str, dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in KEYS:
        monkeypatch.setenv(key, "k")

    native, prompted = built(provider=provider), built(provider=provider, dialect="prompted")

    assert (native.facts.provider, native.provider.name) == (provider, provider)
    assert (native.dialect, prompted.dialect) == (dialect, "prompted")
    assert native.facts.show_schema == (provider == "ollama")
    for backend in (native, prompted):
        await backend.provider.close()


@pytest.mark.parametrize(
    ("provider", "key"), list(zip(("openai", "anthropic", "gemini"), KEYS, strict=True))
)
async def test_a_missing_key_names_profile_and_variable(
    provider: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(key, raising=False)

    with pytest.raises(SetUpError) as raised:
        built(provider=provider)

    assert str(raised.value) == (
        f"Profile `mine`: the variable {key} is not set; put the key there, or name another "
        "variable in `profiles.mine.api_key_env`."
    )


async def test_a_model_without_structured_output_must_be_prompted_explicitly() -> None:
    """Which profile, which capability, what to change."""
    model = answer({"id": "m", "capabilities": {"structured_outputs": {"supported": False}}})
    async with misbehaving(model) as server:
        url = server.base_url.removesuffix("/v1")
        native = built(provider="anthropic", base_url=url)
        prompted = built(provider="anthropic", base_url=url, dialect="prompted")

        with pytest.raises(SetUpError) as raised:
            await backends.preflight({"mine": native})
        await backends.preflight({"mine": prompted})

    assert str(raised.value) == (
        "Profile `mine`: the model 'm' has no native structured output: set `model` to one that "
        'has it, or say `dialect = "prompted"`'
    )
    for backend in (native, prompted):
        await backend.provider.close()


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini", "ollama"])
@pytest.mark.parametrize("value", [None, ""])
async def test_a_key_that_is_named_must_be_there_at_a_server_of_ones_own_too(
    provider: str, value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A misspelt variable would be no key, and shows up in calls alone, if at all."""
    monkeypatch.delenv("MY_KYE", raising=False)
    if value is not None:
        monkeypatch.setenv("MY_KYE", value)

    with pytest.raises(SetUpError) as raised:
        built(provider=provider, base_url="http://127.0.0.1:1", api_key_env="MY_KYE")

    assert str(raised.value) == (
        "Profile `mine`: the variable MY_KYE is not set; put the key there, or name another "
        "variable in `profiles.mine.api_key_env`, or leave `profiles.mine.api_key_env` out if it "
        "needs none."
    )


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini", "ollama"])
async def test_a_server_of_ones_own_needs_no_key(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in KEYS:
        monkeypatch.delenv(key, raising=False)

    for backend in (
        built(provider=provider, base_url="http://127.0.0.1:1"),
        built(provider=provider, base_url="http://127.0.0.1:1", api_key_env=None),
    ):
        await backend.provider.close()
