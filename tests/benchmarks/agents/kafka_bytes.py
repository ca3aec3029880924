"""How many bytes a broker was given for a trial, in keys and values."""

from collections import Counter

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from tests.benchmarks.rig import Field

OF_OTHERS = ("requests", "toolsets")  # what upstream wrote, and what servers announce


def kafka_bytes(field: Field, prefix: str) -> "Counter[str]":
    """Keys and values of all committed records of the topics that begin so, by topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": field.bus.bootstrap,
            "group.id": "bytes-without-a-group",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    known = consumer.list_topics(timeout=20).topics
    skipped = tuple(f"{prefix}{name}." for name in OF_OTHERS)
    names = [name for name in known if name.startswith(prefix) and not name.startswith(skipped)]
    places = {(name, number) for name in names for number in known[name].partitions}
    consumer.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in places])
    total = Counter[str]()
    while places:
        for message in consumer.consume(1_000, timeout=0.2):
            error = message.error()
            if error is None:
                size = len(message.key() or b"") + len(message.value() or b"")
                total[str(message.topic()).removeprefix(prefix)] += size
            elif error.code() == KafkaError._PARTITION_EOF:
                places.discard((str(message.topic()), message.partition() or 0))
    consumer.close()
    return total
