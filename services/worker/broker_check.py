"""Whether the broker is there and has the topics as a worker needs them, found out at start."""

import asyncio
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from answerbus.topics import TOPICS
from services.kafka import client_options, topic_name
from services.settings import KafkaSettings, SetUpError

CONNECT_TIMEOUT_S = 10.0


async def partitions_of_topics(settings: KafkaSettings) -> int:
    """How many partitions all our topics have. Raises SetUpError with the remedy."""
    counts = await _counts(settings, client_options(settings))
    missing = [name for name, count in counts.items() if not count]
    if missing:
        raise SetUpError(
            f"The topic {missing[0]} is missing on {settings.bootstrap_servers}; create all "
            "topics with `answerbus topics apply`."
        )
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise SetUpError(
            f"All topics need the same number of partitions, but {listed}; recreate those that "
            "differ."
        )
    return next(iter(counts.values()))


async def _counts(settings: KafkaSettings, options: dict[str, Any]) -> dict[str, int]:
    names = [topic_name(settings, topic) for topic in TOPICS]
    admin = AIOKafkaAdminClient(**options, request_timeout_ms=int(CONNECT_TIMEOUT_S * 1000))
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            await admin.start()
            described = await admin.describe_topics(names)
    except (KafkaError, TimeoutError, OSError) as error:
        raise SetUpError(
            f"No Kafka broker answers at {settings.bootstrap_servers} ({type(error).__name__}); "
            "start one (`make up`), or correct `kafka.bootstrap_servers`."
        ) from None
    finally:
        await admin.close()
    counts = {topic["topic"]: len(topic["partitions"]) for topic in described}
    return {name: counts.get(name, 0) for name in names}
