"""Which broker of a cluster does what: leads a partition, a group, the cluster itself."""

from typing import Any

from aiokafka.client import AIOKafkaClient
from confluent_kafka.admin import AdminClient

from services.kafka.clock import _DescribeQuorum

LIMIT_S = 60.0


def leader_of(bootstrap: str, topic: str, partition: int = 0) -> int:
    """Its node id."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    found: int = (
        admin.list_topics(topic, timeout=LIMIT_S).topics[topic].partitions[partition].leader
    )
    return found


def coordinator_of(bootstrap: str, group: str) -> int:
    """The node id of the one that keeps a group."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    asked = admin.describe_consumer_groups([group], request_timeout=LIMIT_S)
    found: int = asked[group].result().coordinator.id
    return found


async def controller_of(bootstrap: str) -> int:
    """The node id of the active controller."""
    client = AIOKafkaClient(bootstrap_servers=bootstrap)
    await client.bootstrap()
    try:
        answer: Any = await client.send(client.get_random_node(), _DescribeQuorum())
    finally:
        await client.close()
    (topic,) = answer.to_object()["topics"]
    (partition,) = topic["partitions"]
    found: int = partition["leader"]
    return found
