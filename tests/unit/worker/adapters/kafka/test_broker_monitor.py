"""Brokers that take no connection are named, while there is a reason to look."""

import asyncio

from infra.ports import LOOPBACK, free_ports
from services.settings.settings import KafkaSettings
from services.worker.adapters.kafka.broker_monitor import BrokerMonitor

LIMIT_S = 10.0


async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """What takes a connection, and is not a broker."""
    writer.close()


async def test_those_that_take_no_connection_are_named_and_forgotten() -> None:
    first, second, third = free_ports(3)
    addresses = [f"{LOOPBACK}:{port}" for port in (first, second, third)]
    monitor = BrokerMonitor(KafkaSettings(bootstrap_servers=",".join(addresses)))
    async with await asyncio.start_server(hang_up, LOOPBACK, first):
        await monitor.look()
        away = sorted(addresses[1:], key=lambda address: int(address.rpartition(":")[2]))
        assert monitor.trouble == f"2 brokers take no connection: {', '.join(away)}"
        async with await asyncio.start_server(hang_up, LOOPBACK, second):
            await monitor.look()
            assert monitor.trouble == f"1 broker takes no connection: {addresses[2]}"
        looking = asyncio.create_task(monitor.run(lambda: False))
        async with asyncio.timeout(LIMIT_S):
            while monitor.trouble:  # it does not look without a reason
                await asyncio.sleep(0.01)
        looking.cancel()
