"""Brokers that clients reach through a proxy each, and one another directly."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from infra.kafka import Cluster
from infra.ports import LOOPBACK, free_ports
from tests.storms.proxy import PASS, Proxy, Rule

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
    """What stands before each broker."""

    each: Sequence[Proxy]

    @property
    def servers(self) -> str:
        """What clients are given that go through the proxies."""
        return ",".join(f"{LOOPBACK}:{proxy.port}" for proxy in self.each)

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
