"""Where each thing of a container is on this machine: ports and folders."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.ports import LOOPBACK, free_ports
from tests.infra.compose import Service, broker_properties, environment, services

CONTROLLER = "CONTROLLER"
PLAINTEXT = "PLAINTEXT"  # a listener beside the file's, which tells when a broker is up
HEALTH = "localhost:8080"
_LISTENER = re.compile(r"(\w+)://:(\d+)")


@dataclass(frozen=True)
class Places:
    """`ports` by the address in a container, as `kafka-1:9092`; `plain` by the broker's service."""

    folder: Path
    ports: Mapping[str, int]
    plain: Mapping[str, int]
    health: int

    @property
    def certificates(self) -> Path:
        return self.folder / "certificates"

    def here(self, text: str) -> str:
        """With hosts and folders of this machine."""
        for address, port in self.ports.items():
            text = text.replace(address, f"localhost:{port}")
        own = text.replace(HEALTH, f"localhost:{self.health}")
        return own.replace("/certificates/", f"{self.certificates}/")

    def properties_of(self, name: str) -> dict[str, str]:
        """What the variables of a broker's service say, with listeners on this machine."""
        given = broker_properties(services()[name])
        fields = {key: self.here(value) for key, value in given.items() if key != "log.dirs"}
        own = [(PLAINTEXT, LOOPBACK, self.plain[name])]
        for listener, port in listeners(name):
            own.append((listener, "localhost", self.ports[f"{name}:{port}"]))
        urls = {listener: f"{listener}://{host}:{port}" for listener, host, port in own}
        protocols = fields["listener.security.protocol.map"]
        return fields | {
            "listeners": ",".join(urls.values()),
            "advertised.listeners": ",".join(
                url for listener, url in urls.items() if listener != CONTROLLER
            ),
            "listener.security.protocol.map": f"{PLAINTEXT}:{PLAINTEXT},{protocols}",
        }

    def variables(self, service: Service, inherited: Mapping[str, str]) -> dict[str, str]:
        """Those of a service of ours, of which only the places are others."""
        own = {name: self.here(value) for name, value in environment(service).items() if value}
        return {**inherited, **own}


def listeners(name: str) -> list[tuple[str, str]]:
    """Of a broker's service: each name and its port in the container."""
    return _LISTENER.findall(broker_properties(services()[name])["listeners"])


def places(folder: Path, brokers: list[str]) -> Places:
    """Free ports for all that these brokers and a worker listen on."""
    addresses = [f"{name}:{port}" for name in brokers for _, port in listeners(name)]
    free = iter(free_ports(len(addresses) + len(brokers) + 1))
    ports = {address: next(free) for address in addresses}
    return Places(folder, ports, {name: next(free) for name in brokers}, next(free))
