"""A set-up that cannot work is found at start and said in one sentence with its remedy, code 3."""

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from answerbus.topics import RESULTS
from infra.ports import free_ports
from tests.integration.bus import ANSWERED, Bus
from tests.integration.forked import command
from tests.integration.topic_settings import change_settings
from tests.providers.misbehaving import Script, answer, misbehaving

pytestmark = pytest.mark.kafka

LIMIT_S = 30.0
EXIT_SET_UP = 3
LISTING = answer({"object": "list", "data": [{"id": "local-small"}, {"id": "other"}]})
NOT_FOUND = answer({"error": {"message": "no such model"}}, 404)


async def said_at_start(config: Path, **variables: str) -> str:
    """What a worker that ends at once says beside its log: one line, on stderr alone."""
    inherited = os.environ.items()  # noqa: TID251 - all but settings and keys
    environment = {n: v for n, v in inherited if not n.startswith(("ANSWERBUS_", "OPENAI_"))}
    process = await command(["worker", "--config", str(config)], environment | variables)
    try:
        async with asyncio.timeout(LIMIT_S):
            out, error = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    assert (process.returncode, out) == (EXIT_SET_UP, b""), error.decode()
    *logged, reported = error.decode().splitlines()
    assert all(line.startswith("{") for line in logged)
    return reported


@pytest.fixture
def nowhere(tmp_path: Path) -> Bus:
    """A bus at an address where nothing listens."""
    (port,) = free_ports(1)
    return Bus(f"127.0.0.1:{port}", "nowhere", 1, tmp_path)


@pytest.fixture
def scripted(bus: Bus) -> Path:
    """Settings with which a worker would start."""
    return bus.config([{"reply": ANSWERED}])


def openai(base_url: str | None, **more: Any) -> str:
    """A profile of a server that speaks OpenAI's API."""
    table = {"provider": "openai", "model": "m-1", "base_url": base_url, **more}
    lines = [f'{name} = "{value}"' for name, value in table.items() if value is not None]
    return "\n".join(["[profiles.default]", *lines, ""])


async def test_the_broker_is_away(nowhere: Bus) -> None:
    assert await said_at_start(nowhere.config([])) == (
        f"No Kafka broker answers at {nowhere.bootstrap} (KafkaConnectionError); start one "
        "(`make up`), or correct `kafka.bootstrap_servers`."
    )


@pytest.mark.long
async def test_something_else_than_a_broker_listens(nowhere: Bus) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        nowhere.bootstrap = f"127.0.0.1:{deaf.getsockname()[1]}"
        message = await said_at_start(nowhere.config([]))

    assert message.startswith(f"No Kafka broker answers at {nowhere.bootstrap} (")
    assert message.endswith("start one (`make up`), or correct `kafka.bootstrap_servers`.")


async def test_a_topic_is_missing(bus: Bus) -> None:
    bus.prefix += "-elsewhere"

    assert await said_at_start(bus.config([])) == (
        f"The topic {bus.prefix}.requests.v1 is missing on {bus.bootstrap}; create all topics "
        "with `answerbus topics apply`."
    )


async def test_a_topic_that_would_refuse_our_largest_records(bus: Bus, scripted: Path) -> None:
    await change_settings(bus, {RESULTS: {"max.message.bytes": "100000"}})

    assert await said_at_start(scripted) == (
        f"The topic {bus.topic(RESULTS)} takes records of at most 100000 bytes, and ours may have "
        "1048588; correct it with `answerbus topics apply`."
    )


async def test_an_unknown_setting(bus: Bus) -> None:
    config = bus.config([], worker={"max_in_fligth": 5})

    assert await said_at_start(config) == (
        "Setting `worker.max_in_fligth` is unknown; did you mean `max_in_flight`? Correct it in "
        f"{config} or in the variable ANSWERBUS_WORKER__MAX_IN_FLIGTH."
    )


async def test_an_unknown_setting_of_a_profile(bus: Bus) -> None:
    config = bus.settings(openai("http://127.0.0.1:1/v1", modle="m"))

    assert await said_at_start(config) == (
        "Setting `profiles.default.modle` is unknown; did you mean `model`? Correct it in "
        f"{config} or in the variable ANSWERBUS_PROFILES__DEFAULT__MODLE."
    )


@pytest.mark.parametrize("variable", ["ANSWERBUS_WORKER__MAX_IN_FLIGTH", "ANSWERBUS_MODEL"])
async def test_an_unknown_variable(scripted: Path, variable: str) -> None:
    message = await said_at_start(scripted, **{variable: "5"})

    assert variable in message
    assert message.startswith(
        ("Setting `worker.max_in_fligth` is unknown;", f"The variable {variable} is unknown;")
    )


async def test_a_missing_settings_file(tmp_path: Path) -> None:
    path = tmp_path / "none.toml"

    assert await said_at_start(path) == (
        f"There is no settings file {path}; name one with --config."
    )


async def test_no_profile(bus: Bus) -> None:
    assert await said_at_start(bus.settings("")) == (
        "No profile is configured: add a table [profiles.default] to answerbus.toml that names a "
        "provider and a model."
    )


async def test_a_missing_key(bus: Bus) -> None:
    config = bus.settings(openai(None, api_key_env="MY_KEY"))

    assert await said_at_start(config) == (
        "Profile `default`: the variable MY_KEY is not set; put the key there, or name another "
        "variable in `profiles.default.api_key_env`."
    )


async def said_about(bus: Bus, *scripts: Script) -> tuple[str, str]:
    """What a worker says about a provider that plays scripts, and where that was."""
    async with misbehaving(*scripts) as server:
        config = bus.settings(openai(server.base_url, api_key_env="MY_KEY"))
        message = await said_at_start(config, MY_KEY="sk-secret")
    assert len(server.seen) == len(scripts)
    assert {seen.method for seen in server.seen} == {"GET"}  # nothing that would cost money
    assert {seen.headers["authorization"] for seen in server.seen} == {"Bearer sk-secret"}
    assert "sk-secret" not in message
    return message, server.base_url


async def test_a_wrong_key(bus: Bus) -> None:
    reported, url = await said_about(bus, answer({"error": {"message": "bad key"}}, 401))

    assert reported == (
        f"Profile `default`: {url} refuses the key: put a valid one where `api_key_env` or "
        "`api_key_file` points"
    )


async def test_a_model_that_the_server_has_not(bus: Bus) -> None:
    reported, url = await said_about(bus, LISTING, NOT_FOUND)

    assert reported == (
        f"Profile `default`: {url} has no model 'm-1': set `model` to local-small, other"
    )


async def test_no_server_of_the_provider_ends_no_worker(bus: Bus) -> None:
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}/v1"
    worker = bus.start_worker(bus.settings(openai(url)))

    why = f"there is no server at {url}: start it, or correct `base_url`"
    assert worker.health["unhealthy_profiles"] == {"default": why}
    assert f"Profile `default`: {why}" in [line["message"] for line in worker.log()]


@pytest.mark.parametrize(
    ("script", "fault"),
    [
        (None, "cannot be read: No such file or directory"),
        ("rules:", "is not a script: expected one JSON document: expected value (byte 0)"),
        (
            '{"rules": [{"reply": {"kind": "answred"}}]}',
            (
                "is not a script: at /rules/0/reply: 'kind' to be one of 'answered', 'refused', "
                "'truncated', 'throttled', 'unavailable', 'timed_out', 'hang', 'rejected'"
            ),
        ),
    ],
    ids=["absent", "no JSON", "misspelt"],
)
async def test_a_bad_script(bus: Bus, scripted: Path, script: str | None, fault: str) -> None:
    path = bus.folder / "script.json"
    if script is None:
        path.unlink()
    else:
        path.write_text(script)

    assert await said_at_start(scripted) == f"Profile `default`: {path} {fault}"


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


async def test_the_health_port_is_taken(bus: Bus, taken_port: int) -> None:
    config = bus.config([{"reply": ANSWERED}], worker={"health": f"127.0.0.1:{taken_port}"})

    assert await said_at_start(config) == (
        f"The health port 127.0.0.1:{taken_port} is taken; set `worker.health` to another, or to "
        "port 0 for any free one."
    )
