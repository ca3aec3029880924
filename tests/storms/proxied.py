"""Brokers that clients reach through a proxy each, and one another directly."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

from infra.kafka import Cluster
from infra.ports import LOOPBACK, free_ports
from tests.storms.proxy import PASS, Api, Kind, Proxy, Rule

LISTENER = "PROXIED"
_PROTOCOLS = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT"


class ProxiedCluster(Cluster):
    """Its clients at LISTENER are sent to `proxy_ports`, one for each broker."""

    def __init__(self, folder: Path, size: int) -> None:
        self.proxy_ports = free_ports(size)
        super().__init__(
            folder,
            size,
            (LISTENER,),
            {"listener.security.protocol.map": _PROTOCOLS},
            advertised={LISTENER: self.proxy_ports},
        )


@dataclass(frozen=True, slots=True)
class Proxies:
    """What is before each broker."""

    each: Sequence[Proxy]

    @property
    def servers(self) -> str:
        """What clients are given that go through the proxies."""
        return ",".join(f"{LOOPBACK}:{proxy.port}" for proxy in self.each)

    @property
    def treated(self) -> Counter[str]:
        """How many requests were treated how."""
        seen = sum((proxy.seen for proxy in self.each), Counter[tuple[Api, Kind]]())
        return Counter({f"{api.name} {kind.name}": count for (api, kind), count in seen.items()})

    def set_rule(self, rule: Rule) -> None:
        """One for all of them."""
        for proxy in self.each:
            proxy.rule = rule

    def calm(self) -> None:
        """From here on nothing is disturbed, and what is held arrives."""
        self.set_rule(lambda _: PASS)
        for proxy in self.each:
            proxy.release()


@asynccontextmanager
async def proxies(cluster: Cluster, ports: Sequence[int], protocol: str) -> AsyncIterator[Proxies]:
    """One before each broker, at the ports that it advertises for the protocol."""
    async with AsyncExitStack() as stack:
        yield Proxies(
            [
                await stack.enter_async_context(Proxy(target, port=port))
                for port, target in zip(ports, cluster.ports_at(protocol), strict=True)
            ]
        )


class ProxyThread:
    """Proxies with a thread of their own, for what is not asynchronous itself."""

    def __init__(
        self, cluster: Cluster, ports: Sequence[int], protocol: str, rule: Rule = lambda _: PASS
    ) -> None:
        self._cluster, self._ports, self._protocol = cluster, ports, protocol
        self._rule = rule
        self._listens = Event()
        self._thread = Thread(target=lambda: asyncio.run(self._run()))

    @property
    def servers(self) -> str:
        """What clients are given."""
        return ",".join(f"{LOOPBACK}:{port}" for port in self._ports)

    @property
    def disturbed(self) -> int:
        """How many requests were not just passed on, once it was started."""
        treated = self._found.treated
        return sum(count for name, count in treated.items() if not name.endswith(Kind.PASS.name))

    def start(self) -> None:
        """Returns once they listen."""
        self._thread.start()
        self._listens.wait()

    def calm(self) -> None:
        """See Proxies."""
        self._loop.call_soon_threadsafe(self._found.calm)

    def close(self) -> None:
        """Cut what goes through them, if they were started."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._closing.set)
            self._thread.join()

    async def _run(self) -> None:
        self._loop, self._closing = asyncio.get_running_loop(), asyncio.Event()
        async with proxies(self._cluster, self._ports, self._protocol) as found:
            self._found = found
            found.set_rule(self._rule)
            self._listens.set()
            await self._closing.wait()
            self.treated = found.treated
