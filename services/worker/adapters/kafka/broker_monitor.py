"""Which brokers take no connection, or answer nothing: without them others only seem slow."""

import asyncio
from collections.abc import Callable

from aiokafka.conn import collect_hosts

from answerbus.client.bootstrap import AIOKafkaAdminClient
from answerbus.client.bounded import bounded, close
from answerbus.client.bus import START_TIMEOUT_S
from answerbus.client.connection_check import is_silent, takes_connections
from services.kafka.options import client_options, connection_options
from services.settings.settings import KafkaSettings
from services.text.counted import count_text
from services.worker.tasks.rounds import rounds

LOOK_EVERY_S = 3.0

Address = tuple[str, int]
_AWAY = "broker takes no connection", "brokers take no connection"
_SILENT = (
    "broker takes connections and answers nothing",
    "brokers take connections and answer nothing",
)


class BrokerMonitor:
    """`trouble` names them; None if all answer, or while there is no reason to try."""

    def __init__(self, settings: KafkaSettings) -> None:
        self.trouble: str | None = None
        self._settings = settings

    async def run(self, is_in_trouble: Callable[[], bool]) -> None:
        """Look for ever, while Kafka is in trouble: a connection costs each broker something."""

        async def look() -> None:
            if is_in_trouble():
                await self.look()
            else:
                self.trouble = None

        await rounds("the question which brokers answer", look, LOOK_EVERY_S)

    async def look(self) -> None:
        """Try each once: those of the settings, and those that the cluster names."""
        addresses = sorted({*self._set(), *await self._named()})
        faults = await asyncio.gather(*map(self._fault, addresses))
        found: dict[tuple[str, str], list[str]] = {}
        for (host, port), fault in zip(addresses, faults, strict=True):
            if fault:
                found.setdefault(fault, []).append(f"{host}:{port}")
        texts = (
            f"{count_text(len(its), *fault)}: {', '.join(its)}" for fault, its in found.items()
        )
        self.trouble = "; ".join(texts) or None

    async def _fault(self, address: Address) -> tuple[str, str] | None:
        """Of one broker and of several."""
        if not await takes_connections(*address):
            return _AWAY
        is_frozen = await is_silent(*address, connection_options(self._settings))
        return _SILENT if is_frozen else None

    def _set(self) -> list[Address]:
        hosts = collect_hosts(self._settings.bootstrap_servers, randomize=False)
        return [(host, port) for host, port, _family in hosts]

    async def _named(self) -> list[Address]:
        """None where no broker answers."""
        admin = AIOKafkaAdminClient(**client_options(self._settings))
        try:
            brokers = await bounded(_brokers(admin), START_TIMEOUT_S)
        except Exception:  # other checks report what is wrong with the answer
            return []
        finally:
            await close(admin.close())
        return brokers


async def _brokers(admin: AIOKafkaAdminClient) -> list[Address]:
    await admin.start()
    cluster = await admin.describe_cluster()
    return [(broker["host"], broker["port"]) for broker in cluster["brokers"]]
