"""Questions to all brokers of a cluster, also to one that has not answered before."""

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka.protocol.metadata import MetadataResponse_v1

from answerbus.client import bootstrap
from answerbus.client.bootstrap import AIOKafkaAdminClient, AIOKafkaClient
from services.commands.doctor.broker import _cluster
from services.kafka.open_transactions import _id_of

SILENT = 1
PRODUCE, VERSION = 0, 11


class Admin:
    async def describe_topics(self) -> list[Any]:
        return []

    async def describe_configs(self, _: object) -> list[Any]:
        return []


@pytest.fixture
async def client(monkeypatch: pytest.MonkeyPatch) -> AIOKafkaClient:
    """Of three brokers, one of which was silent just now."""
    monkeypatch.setattr(bootstrap, "_failed_at", {f"kafka-{SILENT}:9092": time.monotonic()})
    made = AIOKafkaClient(bootstrap_servers="kafka-0")
    nodes = [(node, f"kafka-{node}", 9092, None) for node in range(3)]
    made.cluster.update_metadata(MetadataResponse_v1(nodes, 0, []))
    return made


async def test_the_doctor_counts_it(client: AIOKafkaClient) -> None:
    async def send(*_: object) -> Any:
        return SimpleNamespace(api_versions=[(PRODUCE, 0, VERSION)])

    client.send = send
    assert (await _cluster(client, cast("AIOKafkaAdminClient", Admin()))).brokers == 3


async def test_it_may_know_whose_transaction_is_open(client: AIOKafkaClient) -> None:
    """The answer is kept for as long as the transaction is open."""

    async def send(node: int, _: object) -> Any:
        return SimpleNamespace(transactions=[("ours", 7, "Ongoing", {})] if node == SILENT else [])

    client.send = send
    assert await _id_of(client, 7) == "ours"
