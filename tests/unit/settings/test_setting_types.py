"""Every setting takes values of its own type, within bounds; all else is one sentence."""

import json
from pathlib import Path
from types import NoneType
from typing import Any, get_args

import pytest
import tomli_w

from services.settings.agents import AgentSettings
from services.settings.console import ConsoleSettings, OidcSettings
from services.settings.profiles import (
    AnthropicProfile,
    AzureProfile,
    BedrockProfile,
    GeminiProfile,
    OllamaProfile,
    OpenAIProfile,
    ScriptedProfile,
    TokenPrice,
    VertexAnthropicProfile,
    VertexProfile,
)
from services.settings.section import Section
from services.settings.settings import KafkaSettings, Settings, SetUpError, TelemetrySettings, load
from services.settings.worker import IdSettings, WorkerSettings

OIDC = {"issuer": "https://h", "client_id": "c", "operators": ["o"]}
PRICE = {"input_usd": 1, "output_usd": 1}
TABLES: list[tuple[str, type[Section], dict[str, Any]]] = [
    ("kafka", KafkaSettings, {}),
    ("worker", WorkerSettings, {}),
    ("ids", IdSettings, {}),
    ("telemetry", TelemetrySettings, {}),
    ("console", ConsoleSettings, {}),
    ("console.oidc", OidcSettings, OIDC),
    ("profiles.a", OpenAIProfile, {"provider": "openai", "model": "m"}),
    ("profiles.a", AzureProfile, {"provider": "azure", "model": "m", "resource": "r1"}),
    ("profiles.a", AnthropicProfile, {"provider": "anthropic", "model": "m"}),
    ("profiles.a", GeminiProfile, {"provider": "gemini", "model": "m"}),
    (
        "profiles.a",
        BedrockProfile,
        {"provider": "bedrock", "model": "m", "region": "eu-central-1"},
    ),
    (
        "profiles.a",
        VertexProfile,
        {"provider": "vertex", "model": "m", "project": "p", "region": "global"},
    ),
    (
        "profiles.a",
        VertexAnthropicProfile,
        {"provider": "vertex_anthropic", "model": "m", "project": "p", "region": "global"},
    ),
    ("profiles.a", OllamaProfile, {"provider": "ollama", "model": "m"}),
    ("profiles.a", ScriptedProfile, {"provider": "scripted", "script": "s"}),
    ("agents.a", AgentSettings, {"instructions": "i"}),
]
HUGE = 10**400
OF_NO_NUMBER: list[Any] = [True, False, "5", "", "true", [], {}, HUGE, -HUGE, -1e300, 1e300]


def settings_of(*kinds: type) -> list[Any]:
    """Table, contents and name of each setting whose type is one of these."""
    return [
        pytest.param(table, contents, name, id=f"{section.__name__}.{name}")
        for table, section, contents in TABLES
        for name, field in section.model_fields.items()
        if set(get_args(field.annotation) or [field.annotation]) - {NoneType} <= set(kinds)
    ]


def refusal(tmp_path: Path, table: str, contents: dict[str, Any]) -> str:
    for name in reversed(table.split(".")):
        contents = {name: contents}
    file = tmp_path / "answerbus.toml"
    file.write_text(tomli_w.dumps(contents), encoding="utf-8")
    with pytest.raises(SetUpError) as raised:
        load(file, {})
    return str(raised.value)


@pytest.mark.parametrize(("table", "contents", "name"), settings_of(int, float))
def test_a_number_is_a_number_and_bounded(
    tmp_path: Path, table: str, contents: dict[str, Any], name: str
) -> None:
    for value in OF_NO_NUMBER:
        text = refusal(tmp_path, table, {**contents, name: value})

        assert text.startswith(f"Setting `{table}.{name}`: "), value
        assert "\n" not in text
        assert ". Correct it in " in text


@pytest.mark.parametrize(("table", "contents", "name"), settings_of(bool))
def test_a_flag_is_true_or_false(
    tmp_path: Path, table: str, contents: dict[str, Any], name: str
) -> None:
    wrong: list[Any] = [1, 0, "true", "", "yes", 1.0, []]
    for value in wrong:
        text = refusal(tmp_path, table, {**contents, name: value})

        assert f"`{table}.{name}`: must be true or false, without quotes. Correct it in" in text


@pytest.mark.parametrize(("table", "contents", "name"), settings_of(str, Path))
def test_a_text_is_a_text_and_not_empty(
    tmp_path: Path, table: str, contents: dict[str, Any], name: str
) -> None:
    wrong: list[Any] = [True, 5, 0.5, []]
    for value in wrong:
        assert f"Setting `{table}.{name}`: " in refusal(tmp_path, table, {**contents, name: value})
    if not name.endswith("_env"):  # TOML has no null: an empty name is that of no variable
        assert f"Setting `{table}.{name}`: " in refusal(tmp_path, table, {**contents, name: ""})


@pytest.mark.parametrize("name", TokenPrice.model_fields)
def test_a_price_is_a_number(tmp_path: Path, name: str) -> None:
    for value in OF_NO_NUMBER:
        profile = {"provider": "openai", "model": "m", "price": {**PRICE, name: value}}

        text = refusal(tmp_path, "profiles.a", profile)

        assert text.startswith(f"Setting `profiles.a.price.{name}`: ")


def test_a_variable_holds_text_for_any_of_them() -> None:
    variables = {
        "ANSWERBUS_PROFILES__A__PROVIDER": "ollama",
        "ANSWERBUS_PROFILES__A__MODEL": "m",
        "ANSWERBUS_PROFILES__A__TIMEOUT_S": "0.5",
        "ANSWERBUS_PROFILES__A__CHECK_MODEL": "false",
        "ANSWERBUS_WORKER__HEALTH_HOSTS": '["h"]',
    }
    settings = load(None, variables)

    profile = settings.profiles["a"]
    assert (profile.timeout_s, profile.model, type(profile.model)) == (0.5, "m", str)
    assert settings.worker.health_hosts == ("h",)
    for name in ("TIMEOUT_S", "CHECK_MODEL"):
        for text in ("", "much", "nan"):
            with pytest.raises(SetUpError, match=f"PROFILES__A__{name}"):
                load(None, variables | {f"ANSWERBUS_PROFILES__A__{name}": text})


def test_a_list_is_a_list(tmp_path: Path) -> None:
    text = refusal(tmp_path, "worker", {"health_hosts": '["h"]'})

    assert 'must be a list or a table, such as ["a", "b"]' in text


@pytest.mark.parametrize(
    ("place", "table"),
    [
        ("profiles.a.price", {"input_usd": 1, "output_usd": 2.5}),
        ("profiles.a.shadow", {"profile": "b", "share": 0.1, "usd_per_day": 5}),
        ("profiles.c", {"provider": "ollama", "model": "n"}),
        ("console.oidc", OIDC),
        ("budgets.tenant:*.usd", {"day": 5}),
    ],
)
def test_a_table_is_json_in_a_variable(place: str, table: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "answerbus.toml"
    profiles = {name: {"provider": "ollama", "model": "m"} for name in ("a", "b")}
    file.write_text(tomli_w.dumps({"profiles": profiles}), encoding="utf-8")
    variables = {f"ANSWERBUS_{place.upper().replace('.', '__')}": json.dumps(table)}

    found = load(file, variables)

    *sections, last = place.split(".")
    expected: dict[str, Any] = {"profiles": profiles}
    section = expected
    for name in sections:
        section = section.setdefault(name, {})
    section[last] = table
    assert found == Settings.model_validate(expected)
    with pytest.raises(SetUpError, match="must be JSON in a variable"):
        load(file, dict.fromkeys(variables, "much"))
