"""Secrets of Kafka come from variables, files or plugins, and are those of the moment."""

import asyncio
import inspect
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from services.kafka import options as kafka_options
from services.kafka.options import TokenSource, connection_options, token_source
from services.settings.settings import KafkaSettings, SetUpError

OAUTH: dict[str, Any] = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}
SASL: dict[str, Any] = {"security_protocol": "SASL_PLAINTEXT", "sasl_plain_username": "ann"}


async def token(**settings: Any) -> str:
    return await token_source(KafkaSettings(**OAUTH, **settings)).token()


def test_a_password_in_a_file_is_the_one_of_each_new_client(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("first\n")
    options = connection_options(KafkaSettings(**SASL, sasl_plain_password_file=file))
    at = options.at("kafka:9092")
    before = dict(**options), dict(**at)
    file.with_suffix(".new").write_text("second")
    file.with_suffix(".new").replace(file)

    assert [it["sasl_plain_password"] for it in before] == ["first", "first"]
    assert [dict(**it)["sasl_plain_password"] for it in (options, at)] == ["second", "second"]
    assert dict(**at).keys() == {*options, "bootstrap_servers"}


def test_a_password_that_is_nowhere(tmp_path: Path) -> None:
    with pytest.raises(SetUpError, match="_file` a file"):
        connection_options(KafkaSettings(**SASL))
    with pytest.raises(SetUpError, match="_file` is not there"):
        connection_options(KafkaSettings(**SASL, sasl_plain_password_file=tmp_path / "none"))


def test_a_password_is_held_in_one_place(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a secret lies in one place"):
        KafkaSettings(sasl_plain_password_env="A", sasl_plain_password_file=tmp_path)


async def test_a_token_in_a_file_is_the_one_of_each_connection(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first")
    source = token_source(KafkaSettings(**OAUTH, sasl_token_file=file))
    before = await source.token()
    file.write_text("the second")

    assert (before, await source.token()) == ("first", "the second")


async def test_a_token_in_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_TOKEN", "abc")

    assert await token(sasl_token_env="KAFKA_TOKEN") == "abc"
    with pytest.raises(SetUpError, match="The variable NO_TOKEN is not set"):
        await token(sasl_token_env="NO_TOKEN")


def plain_token() -> str:
    return "plain"


async def awaited_token() -> str:
    await asyncio.sleep(0)
    return "awaited"


def offered(monkeypatch: pytest.MonkeyPatch, **named: str) -> None:
    found = [EntryPoint(name, value, kafka_options.ENTRY_POINTS) for name, value in named.items()]
    monkeypatch.setattr(kafka_options, "entry_points", lambda group: found)


@pytest.mark.parametrize(("made", "wanted"), [(plain_token, "plain"), (awaited_token, "awaited")])
async def test_a_token_that_a_plugin_gives(
    monkeypatch: pytest.MonkeyPatch, made: Callable[[], Any], wanted: str
) -> None:
    offered(monkeypatch, msk=f"{__name__}:{made.__name__}")

    assert await token(sasl_token_plugin="msk") == wanted


async def test_a_plugin_that_is_not_there_or_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    offered(monkeypatch, broken="no_such_module:token")

    with pytest.raises(SetUpError, match=r"No installed package offers .* \(there are: broken\)"):
        await token(sasl_token_plugin="msk")
    with pytest.raises(SetUpError, match=r"cannot be loaded \(ModuleNotFoundError"):
        await token(sasl_token_plugin="broken")


@pytest.mark.parametrize(
    "settings", [{}, {"sasl_token_env": "A", "sasl_token_plugin": "b"}], ids=["none", "two"]
)
async def test_a_token_comes_from_one_place(settings: dict[str, str]) -> None:
    with pytest.raises(SetUpError, match="OAUTHBEARER needs one of"):
        await token(**settings)


def test_aiokafka_takes_our_source_of_tokens() -> None:
    """It looks for its own class."""
    from aiokafka.abc import AbstractTokenProvider  # noqa: PLC0415

    assert issubclass(TokenSource, AbstractTokenProvider)
    assert inspect.iscoroutinefunction(TokenSource.token)
