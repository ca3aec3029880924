"""What the settings say of Kafka, as its clients want to be told."""

import pytest

from services.kafka.options import client_options
from services.settings.settings import KafkaSettings, SetUpError


@pytest.mark.parametrize("servers", ["localhost:abc", ":", "a:1,b:x", "a..b:1"])
def test_addresses_that_are_none_are_a_wrong_set_up_and_no_crash(servers: str) -> None:
    with pytest.raises(SetUpError, match=r"`kafka\.bootstrap_servers` must be HOST:PORT"):
        client_options(KafkaSettings(bootstrap_servers=servers))


@pytest.mark.parametrize("servers", ["localhost:9092", "kafka-1:9092,kafka-2:9092", "[::1]:9092"])
def test_addresses_are_given_as_they_are(servers: str) -> None:
    options = client_options(KafkaSettings(bootstrap_servers=servers))

    assert options == {"bootstrap_servers": servers, "security_protocol": "PLAINTEXT"}
