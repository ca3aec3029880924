"""Who is not let in by Kafka is told why and what to change, in one sentence, by every command."""

import asyncio
import os
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from answerbus.client import BusRefused, Client
from infra.kafka import start_broker
from infra.ports import LOOPBACK, free_ports
from tests.integration.bus import ANSWERED, Bus, create_topics
from tests.integration.certificates import Authority
from tests.integration.forked import command
from tests.integration.rights import (
    DESCRIBE,
    GROUP,
    PASSWORD,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    USER,
    WRITE,
)
from tests.integration.secured import Secured

pytestmark = pytest.mark.kafka

LIMIT_S = 60.0
EXIT_SET_UP = 3
COMMANDS = (
    ("worker",),
    ("ask", "Name an even number."),
    ("watch",),
    ("topics", "apply"),
    ("replay", "groups"),
    ("workflow", "order-1"),
)


@pytest.fixture
async def bus(secured: Secured, make_prefix: Callable[[], str], tmp_path: Path) -> Bus:
    bus = Bus(secured.plain, make_prefix(), 1, tmp_path)
    await create_topics(bus)
    return bus


async def run(bus: Bus, *words: str, **variables: str) -> tuple[int, str, str]:
    """A command with the settings of the bus: exit code, what it printed, what it said."""
    inherited = os.environ.items()  # noqa: TID251 - all but settings
    environment = {name: v for name, v in inherited if not name.startswith("ANSWERBUS_")}
    config = bus.config([{"reply": ANSWERED}])
    own = environment | {"TEST_KAFKA_PASSWORD": PASSWORD} | variables
    # It has no terminal that a pass phrase could be asked of.
    process = await command([*words, "--config", str(config)], own)
    try:
        async with asyncio.timeout(LIMIT_S):
            out, error = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return process.returncode, out.decode(), error.decode()


async def said(bus: Bus, *words: str, **variables: str) -> str:
    """The one line of a command that ends with code 3; log lines aside."""
    code, out, error = await run(bus, *words, **variables)
    lines = [line for line in error.splitlines() if not line.startswith("{")]
    assert (code, out, len(lines)) == (EXIT_SET_UP, "", 1), (code, out, error)
    return lines[0]


def refused(at: str, cause: str, remedy: str) -> str:
    return f"Kafka at {at} cannot be used, {cause}: {remedy}."


class Cases:
    """Settings that are wrong in one way, and what is to be said of each."""

    @staticmethod
    def password(secured: Secured, _: Path) -> tuple[dict[str, Any], str, str]:
        return (
            secured.settings("SASL_PLAINTEXT", sasl_plain_password_env="TEST_KAFKA_WRONG"),
            f"the broker refuses the user {USER} or its password (SaslAuthenticationFailed)",
            (
                "correct `kafka.sasl_plain_username` or the password in the variable that "
                "`kafka.sasl_plain_password_env` names"
            ),
        )

    @staticmethod
    def scram_password(secured: Secured, _: Path) -> tuple[dict[str, Any], str, str]:
        settings, cause, remedy = Cases.password(secured, _)
        return settings | {"sasl_mechanism": "SCRAM-SHA-512"}, cause, remedy

    @staticmethod
    def mechanism(secured: Secured, _: Path) -> tuple[dict[str, Any], str, str]:
        return (
            secured.settings("SASL_PLAINTEXT", sasl_mechanism="SCRAM-SHA-256"),
            "the broker does not know the SASL mechanism SCRAM-SHA-256",
            "set `kafka.sasl_mechanism` to PLAIN or SCRAM-SHA-512",
        )

    @staticmethod
    def authority(secured: Secured, folder: Path) -> tuple[dict[str, Any], str, str]:
        other = Authority(folder / "other", "other")
        return (
            secured.settings("SASL_SSL", ssl_cafile=str(other.file)),
            (
                "the broker's certificate is signed by an authority that is not trusted here "
                "(unable to get local issuer certificate)"
            ),
            "put the authority that signed it into `kafka.ssl_cafile`",
        )

    @staticmethod
    def host(secured: Secured, _: Path) -> tuple[dict[str, Any], str, str]:
        at = secured.at("SASL_SSL").replace("127.0.0.1", "localhost")
        return (
            secured.settings("SASL_SSL", bootstrap_servers=at),
            "the broker's certificate is not for localhost",
            "name it in `kafka.bootstrap_servers` as its certificate does",
        )

    @staticmethod
    def no_certificate(secured: Secured, _: Path) -> tuple[dict[str, Any], str, str]:
        settings = secured.settings("SSL")
        del settings["ssl_certfile"], settings["ssl_keyfile"]
        return (
            settings,
            "the broker wants a certificate of the client, and has been shown none",
            "set `kafka.ssl_certfile` and `kafka.ssl_keyfile` to those that the broker accepts",
        )

    @staticmethod
    def certificate_of_another_ca(
        secured: Secured, folder: Path
    ) -> tuple[dict[str, Any], str, str]:
        mine = Authority(folder / "mine", "mine").signs("worker")
        own = {"ssl_certfile": str(mine.certificate), "ssl_keyfile": str(mine.key)}
        return (
            secured.settings("SSL", **own),
            (
                "the broker does not accept the certificate of the client "
                "(SSLV3_ALERT_CERTIFICATE_UNKNOWN)"
            ),
            "set `kafka.ssl_certfile` and `kafka.ssl_keyfile` to those that the broker accepts",
        )

    @staticmethod
    def plain_to_tls(secured: Secured, _: Path) -> tuple[dict[str, Any], str, str]:
        return (
            {"bootstrap_servers": secured.at("SSL")},
            "the broker speaks TLS there, and we do not",
            "set `kafka.security_protocol` to SSL or SASL_SSL",
        )

    @staticmethod
    def sasl_plain_to_tls(secured: Secured, _: Path) -> tuple[dict[str, Any], str, str]:
        at = secured.at("SASL_SSL")
        return (
            secured.settings("SASL_PLAINTEXT", bootstrap_servers=at),
            "the broker speaks TLS there, and we do not",
            "set `kafka.security_protocol` to SSL or SASL_SSL",
        )

    @staticmethod
    def tls_to_plain(secured: Secured, _: Path) -> tuple[dict[str, Any], str, str]:
        at = secured.at("SASL_PLAINTEXT")
        return (
            secured.settings("SASL_SSL", bootstrap_servers=at),
            "the broker speaks no TLS there, and we do",
            "set `kafka.security_protocol` to PLAINTEXT or SASL_PLAINTEXT",
        )

    @staticmethod
    def no_sasl(secured: Secured, _: Path) -> tuple[dict[str, Any], str, str]:
        return (
            {"bootstrap_servers": secured.at("SASL_PLAINTEXT")},
            "the broker wants a user name and a password there (SASL)",
            "set `kafka.security_protocol` to SASL_PLAINTEXT",
        )

    @staticmethod
    def no_sasl_over_tls(secured: Secured, _: Path) -> tuple[dict[str, Any], str, str]:
        at = secured.at("SASL_SSL")
        return (
            secured.settings("SSL", bootstrap_servers=at),
            "the broker wants a user name and a password there (SASL)",
            "set `kafka.security_protocol` to SASL_SSL",
        )

    @staticmethod
    def sasl_to_plain(secured: Secured, _: Path) -> tuple[dict[str, Any], str, str]:
        return (
            secured.settings("SASL_PLAINTEXT", bootstrap_servers=secured.plain),
            "the broker wants no user name and password there, and we offer them",
            "set `kafka.security_protocol` to PLAINTEXT",
        )

    @staticmethod
    def unknown_name(secured: Secured, _: Path) -> tuple[dict[str, Any], str, str]:
        return (
            {"bootstrap_servers": "no-such-host.invalid:9092"},
            "the name no-such-host.invalid is not known here",
            "correct it in `kafka.bootstrap_servers`",
        )


CASES = [name for name in vars(Cases) if not name.startswith("_")]


@pytest.mark.parametrize("case", CASES)
async def test_a_wrong_listener_is_reported_with_its_setting(
    case: str, secured: Secured, bus: Bus, tmp_path: Path
) -> None:
    bus.kafka, cause, remedy = getattr(Cases, case)(secured, tmp_path)

    reported = await said(bus, "worker", TEST_KAFKA_WRONG="wrong-donkey")

    assert reported == refused(bus.kafka["bootstrap_servers"], cause, remedy)
    assert "wrong-donkey" not in reported


@pytest.mark.long
async def test_every_command_says_the_same(secured: Secured, bus: Bus, tmp_path: Path) -> None:
    bus.kafka, cause, remedy = Cases.password(secured, tmp_path)
    expected = refused(secured.at("SASL_PLAINTEXT"), cause, remedy)

    for words in COMMANDS:
        assert await said(bus, *words, TEST_KAFKA_WRONG="wrong-donkey") == expected, words
    code, out, _ = await run(bus, "doctor", TEST_KAFKA_WRONG="wrong-donkey")
    assert code == 1
    assert f"wrong   broker          {expected}" in out.splitlines()


async def test_a_client_gets_the_cause_with_its_own_options(secured: Secured, bus: Bus) -> None:
    options: dict[str, Any] = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": USER,
        "sasl_plain_password": "wrong-donkey",
        "ssl_context": ssl.create_default_context(cafile=secured.authority.file),
    }
    at = secured.at("SASL_SSL")
    with pytest.raises(BusRefused) as raised:
        async with Client(at, topic_prefix=bus.prefix, **options):
            pass

    assert str(raised.value) == refused(
        at,
        f"the broker refuses the user {USER} or its password (SaslAuthenticationFailed)",
        "correct `sasl_plain_username` or `sasl_plain_password`",
    )


async def test_a_missing_right_to_the_group_is_reported_at_start(
    secured: Secured, bus: Bus
) -> None:
    bus.kafka = secured.settings("SASL_PLAINTEXT")
    secured.allow_worker(bus.prefix)
    secured.revoke(GROUP, f"{bus.prefix}.worker", READ)

    assert await said(bus, "worker") == (
        f"The user of the worker has no right at {secured.at('SASL_PLAINTEXT')} to Read on the "
        f"group {bus.prefix}.worker: grant it, `answerbus topics acls --role worker` prints all "
        "that a worker needs."
    )


async def test_a_missing_right_to_the_transactional_ids_is_reported_at_start(
    secured: Secured, bus: Bus
) -> None:
    """Lanes would never open, and no other word would be said of it."""
    bus.kafka = secured.settings("SASL_PLAINTEXT")
    secured.allow_worker(bus.prefix)
    secured.revoke(TRANSACTIONAL_ID, f"{bus.prefix}.lane.*", WRITE, DESCRIBE)

    assert (f" to Write on the transactional ids {bus.prefix}.lane.*: grant it, ") in await said(
        bus, "worker"
    )


async def test_a_missing_right_to_read_the_requests_is_reported_at_start_or_by_ready(
    secured: Secured, bus: Bus
) -> None:
    bus.kafka = secured.settings("SASL_PLAINTEXT")

    assert await said(bus, "worker") == (
        f"The topic {bus.prefix}.requests.v1 is missing on {secured.at('SASL_PLAINTEXT')}, or "
        "there is no right to see it; create all topics with `answerbus topics apply`, or grant "
        "the user Describe."
    )


async def test_a_client_without_the_right_to_write_is_reported(secured: Secured, bus: Bus) -> None:
    bus.kafka = secured.settings("SASL_PLAINTEXT")
    secured.allow(TOPIC, f"{bus.prefix}.*", DESCRIBE, READ)

    reported = await said(bus, "ask", "Name an even number.")

    assert reported == refused(
        secured.at("SASL_PLAINTEXT"),
        f"no right to the topic {bus.prefix}.requests.v1 (TopicAuthorizationFailedError)",
        "grant the user Describe on the topic, and Read or Write as docs/rights.md lists",
    )
    secured.allow(TOPIC, f"{bus.prefix}.*", WRITE)


@pytest.fixture
def keys(tmp_path: Path, secured: Secured) -> dict[str, Any]:
    """Settings with an encrypted key, whose pass phrase is `open-sesame`."""
    signed = secured.authority.signs("locked", password="open-sesame")
    return {"ssl_certfile": str(signed.certificate), "ssl_keyfile": str(signed.key)}


async def test_an_encrypted_key_wants_its_pass_phrase(
    secured: Secured, bus: Bus, keys: dict[str, Any]
) -> None:
    bus.kafka = secured.settings("SSL", **keys)
    assert await said(bus, "worker") == (
        f"The key {keys['ssl_keyfile']} is encrypted: put its pass phrase into a variable, and "
        "name that in `kafka.ssl_password_env`."
    )
    bus.kafka = secured.settings("SSL", **keys, ssl_password_env="TEST_KEY_PASSWORD")
    both = f"{keys['ssl_certfile']}, {keys['ssl_keyfile']}"
    assert await said(bus, "worker", TEST_KEY_PASSWORD="open-wide") == (
        f"The pass phrase does not open the key ({both}): correct the variable that "
        "`kafka.ssl_password_env` names."
    )
    reported = await said(bus, "worker", TEST_KEY_PASSWORD="open-sesame")
    assert reported.startswith(
        f"The topic {bus.prefix}.requests.v1 is missing on "
    )  # it was let in


async def test_a_certificate_that_has_expired_is_reported(
    secured: Secured, bus: Bus, tmp_path: Path
) -> None:
    ended = datetime(2021, 1, 1, tzinfo=UTC)
    old = secured.authority.signs("old", ends=ended)
    own = {"ssl_certfile": str(old.certificate), "ssl_keyfile": str(old.key)}
    bus.kafka = secured.settings("SSL", **own)

    reported = await said(bus, "worker")

    assert reported.startswith(f"Kafka at {secured.at('SSL')} cannot be used, the broker does not ")
    assert "`kafka.ssl_certfile`" in reported


async def test_the_doctor_names_a_missing_right_to_the_group(secured: Secured, bus: Bus) -> None:
    bus.kafka = secured.settings("SASL_PLAINTEXT", partitions=1)
    secured.allow(TOPIC, f"{bus.prefix}.*", DESCRIBE, READ)

    code, out, _ = await run(bus, "doctor")

    assert code == 1
    assert f"no right to the consumer group {bus.prefix}.worker" in out


async def test_brokers_that_are_not_where_they_say_are_named(tmp_path: Path) -> None:
    """As from outside of a container network; `bootstrap_servers` is right."""
    port, nowhere = free_ports(2)
    away = f"{LOOPBACK}:{nowhere}"
    properties = {"advertised.listeners": f"PLAINTEXT://{away}"}
    with start_broker(tmp_path / "kafka", port, properties) as broker:
        at = broker.bootstrap_servers
        reported = await said(Bus(at, "away", 1, tmp_path), "watch")

    cause = f"{at} answers and names the brokers' addresses, and none can be reached ({away})"
    remedy = (
        "correct advertised.listeners of the brokers, or see why this machine cannot reach them"
    )
    assert reported == refused(at, cause, remedy)
