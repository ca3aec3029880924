"""How many bytes a broker was given for a trial, in keys and values."""

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from tests.benchmarks.rig import Field

OF_OTHERS = ("requests", "toolsets")  # what upstream wrote, and what servers announce


def kafka_bytes(field: Field, prefix: str) -> int:
    """Keys and values of all committed records of the topics that begin so."""
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
    total = 0
    while places:
        for message in consumer.consume(1_000, timeout=0.2):
            error = message.error()
            if error is None:
                total += len(message.key() or b"") + len(message.value() or b"")
            elif error.code() == KafkaError._PARTITION_EOF:
                places.discard((str(message.topic()), message.partition() or 0))
    consumer.close()
    return total
