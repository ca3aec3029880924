"""The settings file of a trial: what a user changes stays, the stack's own addresses follow."""

import socket
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from infra.stack import Place
from infra.stack import __main__ as command
from infra.stack.settings_file import digest, partitions, write
from services.settings.settings import load

FIRST = ("127.0.0.1:1", "http://127.0.0.1:2/v1", "small", ["http://127.0.0.1:3"])
SECOND = ("127.0.0.1:11", "http://127.0.0.1:12/v1", "small", ["http://127.0.0.1:13"])


def test_the_console_gets_the_addresses_of_the_workers(tmp_path: Path) -> None:
    place = Place(tmp_path)
    write(place.config, place.settings(*FIRST))

    assert load(place.config, {}).console.workers == ("http://127.0.0.1:3",)


def test_edits_are_kept_and_addresses_are_not(tmp_path: Path) -> None:
    place = Place(tmp_path)
    write(place.config, place.settings(*FIRST))
    text = place.config.read_text()
    more = (
        '\n[profiles.other]\nprovider = "openai"\nmodel = "m"\nbase_url = "http://127.0.0.1:2/v2"\n'
    )
    place.config.write_text(text.replace("timeout_s = 120", "timeout_s = 33") + more)
    for _ in range(2):
        write(place.config, place.settings(*FIRST[:3]))
        write(place.config, place.settings(*SECOND))

    found = tomllib.loads(place.config.read_text())
    assert found["profiles"]["default"]["timeout_s"] == 33
    assert found["profiles"]["other"]["base_url"] == "http://127.0.0.1:2/v2"
    assert found["kafka"]["bootstrap_servers"] == SECOND[0]
    assert found["profiles"]["default"]["base_url"] == SECOND[1]
    assert found["console"]["workers"] == SECOND[3]


def test_addresses_are_no_change_of_the_settings_and_all_else_is(tmp_path: Path) -> None:
    place = Place(tmp_path)
    write(place.config, place.settings(*FIRST))
    first = digest(place.config)
    write(place.config, place.settings(*SECOND))
    assert digest(place.config) == first

    place.config.write_text(place.config.read_text().replace("echo.echo", "echo.other"))
    assert digest(place.config) != first


def test_workers_share_as_many_partitions_as_the_settings_say(tmp_path: Path) -> None:
    place = Place(tmp_path)
    write(place.config, place.settings(*FIRST))
    assert partitions(place.config) == load(place.config, {}).kafka.partitions

    text = place.config.read_text().replace("[kafka]", "[kafka]\npartitions = 24")
    place.config.write_text(text)
    assert partitions(place.config) == load(place.config, {}).kafka.partitions == 24


def test_there_is_an_agent_with_a_tool_to_try(tmp_path: Path) -> None:
    place = Place(tmp_path, steps_max=3)
    write(place.config, place.settings(*FIRST))

    helper = load(place.config, {}).agents["helper"]
    assert (helper.tools, helper.steps_max) == (("echo.echo",), 3)


def test_an_edited_address_stays(tmp_path: Path) -> None:
    place = Place(tmp_path)
    write(place.config, place.settings(*FIRST))
    text = place.config.read_text().replace("http://127.0.0.1:2/v1", "http://models:80/v1")
    place.config.write_text(text)
    write(place.config, place.settings(*SECOND))

    profile = tomllib.loads(place.config.read_text())["profiles"]["default"]
    assert profile["base_url"] == "http://models:80/v1"


def test_an_unchanged_file_is_written_again(tmp_path: Path) -> None:
    write(Place(tmp_path).config, Place(tmp_path, output_tokens=1).settings(*FIRST))
    write(Place(tmp_path).config, Place(tmp_path, output_tokens=2).settings(*FIRST))

    assert "max_output_tokens = 2" in Place(tmp_path).config.read_text()


@pytest.mark.parametrize("name", ["KAFKA_PORT"])
def test_a_taken_port_is_reported_with_its_option(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    makefile = (Path(__file__).parents[2] / "Makefile").read_text()
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        reported = CliRunner().invoke(command.app, ["up", "--kafka-port", port])

    assert reported.exit_code == 1
    assert f"Port {port} is taken" in reported.output
    assert f"`make up {name}=0` takes a free one" in reported.output
    assert f"$(if $({name}),--{name.lower().replace('_', '-')} $({name}))" in makefile
