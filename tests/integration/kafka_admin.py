"""An admin client of a broker, for as long as a test needs it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiokafka.admin import AIOKafkaAdminClient


@asynccontextmanager
async def kafka_admin(servers: str) -> AsyncIterator[AIOKafkaAdminClient]:
    """Started, and closed in any case."""
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()
