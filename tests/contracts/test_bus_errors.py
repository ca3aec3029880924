"""Kafka's errors in words: they do not repeat the password, even if a broker does."""

import pytest
from aiokafka.errors import KafkaError

from answerbus.client.bus import Bus
from answerbus.client.errors import BusUnavailable

PASSWORD = "a-password-of-4711"


def test_a_broker_that_repeats_the_password_does_not_get_it_shown() -> None:
    bus = Bus("kafka:9092", "answerbus", {"sasl_plain_password": PASSWORD})

    with pytest.raises(BusUnavailable) as raised, bus.explained():
        raise KafkaError(f"Authentication failed: user me with {PASSWORD}")

    assert PASSWORD not in str(raised.value)
