"""`answerbus profiles`."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from services import cli

SETTINGS = """
[profiles.default]
provider = "openai"
model = "gpt-4o-mini"
api_key_env = "A_KEY"
price = {input_usd = 0.15, output_usd = 0.60}
then = [{profile = "house", on = ["unhealthy", "invalid >= 2"]}]

[profiles.house]
provider = "openai"
base_url = "http://ada:geheim@gpu-1:8000/v1"
model = "qwen"
requests_per_minute = 60

[profiles.played]
provider = "scripted"
script = "script.json"
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("A_KEY", "sk-very-secret")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("COLUMNS", "140")
    file = tmp_path / "answerbus.toml"
    file.write_text(SETTINGS)
    return str(file)


def shown(config: str, *more: str) -> str:
    done = CliRunner().invoke(cli.application(), ["profiles", "--config", config, *more])
    assert done.exit_code == 0, done.output
    assert "geheim" not in done.output
    assert "very-secret" not in done.output
    return done.stdout


def test_each_says_who_answers_within_which_limits(config: str) -> None:
    table = shown(config)

    for text in (
        *("default", "openai, gpt-4o-mini", "key in A_KEY, which is set", "$0.15 in, $0.6 out"),
        *("house", "gpu-1:8000/v1", "no key"),
        *("requests_per_minute 60", "played", "plays script.json"),
        "then house: unhealthy, invalid >= 2",
    ):
        assert text in table


def test_the_id_of_a_model_is_whole_in_a_pipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0.of-the-inference-profile"
    monkeypatch.setenv("COLUMNS", "80")
    file = tmp_path / "answerbus.toml"
    file.write_text(
        f'[profiles.a]\nprovider = "bedrock"\nmodel = "{model}"\nregion = "eu-west-1"\n'
    )

    assert model in shown(str(file))


def test_a_missing_key_is_shown_where_one_is_needed(
    config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("A_KEY")

    assert "key in A_KEY, which is not set" in shown(config)


def test_programs_get_the_same(config: str) -> None:
    default, house, played = json.loads(shown(config, "--json"))

    assert (default["profile"], default["api_key_is_set"]) == ("default", True)
    assert default["price"]["input_usd"] == 0.15
    assert default["price"]["cached_usd"] is None
    assert (house["api_key_is_set"], house["requests_per_minute"]) == (False, 60)
    assert (played["provider"], "api_key_is_set" in played) == ("scripted", False)
    assert house["base_url"].endswith("@gpu-1:8000/v1")


def test_a_file_without_profiles_is_named_so(tmp_path: Path) -> None:
    (tmp_path / "answerbus.toml").write_text("")
    arguments = ["profiles", "--config", str(tmp_path / "answerbus.toml")]
    done = CliRunner().invoke(cli.application(), arguments)

    assert done.exit_code == 0
    assert "no profiles" in done.output


def test_without_profiles_it_says_which_table_to_add(tmp_path: Path) -> None:
    (tmp_path / "empty.toml").write_text("")
    command = ["profiles", "--config", str(tmp_path / "empty.toml")]

    done = CliRunner().invoke(cli.application(), command)

    assert "add a table [profiles.default]." in done.output
