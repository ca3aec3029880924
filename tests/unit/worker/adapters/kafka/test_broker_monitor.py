"""Brokers that take no connection, or are silent, are named while there is a reason to look."""

import asyncio

import pytest

from answerbus.client import bootstrap, connection_check
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


async def test_one_that_takes_connections_and_answers_nothing_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As one that is frozen, or whose machine swaps."""
    monkeypatch.setattr(connection_check, "STEP_TIMEOUT_S", 0.2)
    monkeypatch.setattr(bootstrap, "SERVER_S_MIN", 0.2)
    monkeypatch.setattr(bootstrap, "SERVERS_S", 0.2)
    taken: list[asyncio.StreamWriter] = []

    async def say_nothing(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        taken.append(writer)

    first, second = free_ports(2)
    addresses = [f"{LOOPBACK}:{port}" for port in (first, second)]
    monitor = BrokerMonitor(KafkaSettings(bootstrap_servers=",".join(addresses)))
    async with await asyncio.start_server(say_nothing, LOOPBACK, first):
        await monitor.look()
        for writer in taken:
            writer.close()
    found = (monitor.trouble or "").split("; ")
    assert sorted(found) == [
        f"1 broker takes connections and answers nothing: {addresses[0]}",
        f"1 broker takes no connection: {addresses[1]}",
    ]
