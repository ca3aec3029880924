"""A real Apache Kafka on this machine from pip alone: no Docker and no Java install."""

from infra.kafka.broker import Broker, find_broker, start_broker
from infra.kafka.class_file import make_class_file
from infra.kafka.cluster import Cluster

__all__ = ["Broker", "Cluster", "find_broker", "make_class_file", "start_broker"]
