"""Kafka's errors in words: they do not repeat the password, even if a broker does."""

import subprocess
import sys

import pytest
from aiokafka.errors import (
    InvalidSessionTimeoutError,
    InvalidTransactionTimeout,
    KafkaError,
    MessageSizeTooLargeError,
    ProducerFenced,
)

from answerbus.client import Client
from answerbus.client.bus import Bus
from answerbus.client.diagnosis import describe_error
from answerbus.client.errors import BusUnavailable

PASSWORD = "a-password-of-4711"


def test_a_broker_that_repeats_the_password_does_not_get_it_shown() -> None:
    bus = Bus("kafka:9092", "answerbus", {"sasl_plain_password": PASSWORD})

    with pytest.raises(BusUnavailable) as raised, bus.explained():
        raise KafkaError(f"Authentication failed: user me with {PASSWORD}")

    assert PASSWORD not in str(raised.value)


def test_a_record_that_is_too_large_for_its_topic_has_a_remedy() -> None:
    assert "`answerbus doctor` compares max.message.bytes" in describe_error(
        MessageSizeTooLargeError()
    )


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (InvalidSessionTimeoutError(), "group.min.session.timeout.ms and group.max.session"),
        (InvalidTransactionTimeout(), "transaction.max.timeout.ms is less than"),
    ],
)
def test_a_limit_of_the_brokers_is_named_and_not_the_credentials(
    error: KafkaError, remedy: str
) -> None:
    bus = Bus("kafka:9092", "answerbus", {})

    with pytest.raises(BusUnavailable) as raised, bus.explained():
        raise error

    assert remedy in str(raised.value)
    assert "credentials" not in str(raised.value)


def test_a_producer_that_was_cut_off_says_by_whom() -> None:
    said = describe_error(ProducerFenced())

    assert said == "ProducerFenced: another producer has taken over the transactional id"


@pytest.mark.parametrize("module", ["answerbus.client", "answerbus.client.testing"])
def test_without_its_extra_the_client_says_what_to_install(module: str) -> None:
    script = f"import sys; sys.modules['aiokafka'] = None; import {module}"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 1
    assert "ModuleNotFoundError: answerbus.client needs a Kafka client" in done.stderr
    assert "pip install 'answerbus[client] @ git+URL#subdirectory=contracts'" in done.stderr


@pytest.mark.parametrize(
    "servers", ["kafka:x", "kafka:9092,other:x", ["kafka:x"], "[::1]:x", "kafka..svc:9092"]
)
def test_an_address_that_is_none_is_said_as_what_it_is(servers: str | list[str]) -> None:
    with pytest.raises(BusUnavailable, match="`bootstrap_servers` must be HOST:PORT"):
        Client(servers)
