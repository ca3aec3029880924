"""Several brokers on this machine as one cluster: start them, kill one, restart one, stop all."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Self

from infra.kafka.broker import Broker, new_cluster_id, start_broker
from infra.kafka.java import HEAP_MB, java_command
from infra.ports import LOOPBACK, free_ports

SIZE = 3
MEMBER_HEAP_MB = 256  # three of them share a small machine
START_LIMIT_S = 180.0  # three at once
PLAINTEXT = "PLAINTEXT"
_NO_CHANGES: Mapping[str, str] = MappingProxyType({})
_NO_PROXIES: Mapping[str, Sequence[int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _Place:
    """Where one broker of a cluster lives, for as long as the cluster does."""

    data: Path
    ports: Mapping[str, int]
    properties: Mapping[str, str]


class Cluster:
    """Brokers by number, from 0 on; what is acknowledged survives the loss of any one of three.

    The brokers are the quorum too. Data of each are in a folder of its own. Each has a plain
    listener, and one for each of the other security `protocols`; what these need is in
    `properties`. `advertised` are the ports that clients of a protocol are sent to where those are
    not the brokers' own: one for each broker.
    """

    def __init__(
        self,
        folder: Path,
        size: int = SIZE,
        protocols: Sequence[str] = (),
        properties: Mapping[str, str] = _NO_CHANGES,
        advertised: Mapping[str, Sequence[int]] = _NO_PROXIES,
    ) -> None:
        names = (PLAINTEXT, *protocols)
        free = free_ports((1 + len(names)) * size)
        controllers, rest = free[:size], free[size:]
        listeners = [dict(zip(names, rest[n * len(names) :], strict=False)) for n in range(size)]
        self._id = new_cluster_id()
        self._heap_mb = HEAP_MB if size == 1 else MEMBER_HEAP_MB
        self._places = [
            _Place(
                folder / f"kafka-{number}",
                listeners[number],
                {
                    **_properties(number, listeners[number], controllers),
                    "advertised.listeners": _addresses(
                        listeners[number]
                        | {name: ports[number] for name, ports in advertised.items()}
                    ),
                    **properties,
                },
            )
            for number in range(size)
        ]
        self._brokers: dict[int, Broker] = {}

    @property
    def bootstrap_servers(self) -> str:
        """The bootstrap servers: all brokers, whether they run or not."""
        return self.servers_at(PLAINTEXT)

    def servers_at(self, protocol: str) -> str:
        """The same, of the listeners for a security protocol."""
        return ",".join(f"{LOOPBACK}:{port}" for port in self.ports_at(protocol))

    def ports_at(self, protocol: str) -> list[int]:
        """Those of the listeners for a security protocol, by broker."""
        return [place.ports[protocol] for place in self._places]

    @property
    def size(self) -> int:
        """How many brokers there are, running or not."""
        return len(self._places)

    def start(self) -> None:
        """Start those that do not run, and wait until each answers. Raises SetupError.

        A cluster's first brokers answer only together, so that they are started side by side.
        """
        missing = [number for number in range(self.size) if number not in self._brokers]
        with ThreadPoolExecutor(max(len(missing), 1)) as starting:
            list(starting.map(self._start, missing))

    def kill(self, number: int) -> None:
        """End one as a crash does (SIGKILL)."""
        if broker := self._brokers.pop(number, None):
            broker.kill()

    def end(self, number: int) -> None:
        """End one in good order: it moves its leaderships to the others first."""
        if broker := self._brokers.pop(number, None):
            broker.stop()

    def stop(self) -> None:
        """End all, side by side: the last of a quorum has no successor."""
        brokers, self._brokers = list(self._brokers.values()), {}
        with ThreadPoolExecutor(self.size) as stopping:
            list(stopping.map(Broker.stop, brokers))

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self, number: int) -> None:
        place = self._places[number]
        self._brokers[number] = start_broker(
            place.data,
            place.ports[PLAINTEXT],
            place.properties,
            {name: port for name, port in place.ports.items() if name != PLAINTEXT},
            cluster_id=self._id,
            java=java_command(self._heap_mb),
            limit_s=START_LIMIT_S,
        )


def _properties(
    number: int, ports: Mapping[str, int], controllers: Sequence[int]
) -> Mapping[str, str]:
    """A broker's settings about the others, and the replication of everything."""
    size = len(controllers)
    voters = (f"{node}@{LOOPBACK}:{at}" for node, at in enumerate(controllers, start=1))
    copies, in_sync = str(size), str(size // 2 + 1)
    return {
        "node.id": str(number + 1),
        "controller.quorum.voters": ",".join(voters),
        "listeners": f"{_addresses(ports)},CONTROLLER://{LOOPBACK}:{controllers[number]}",
        "default.replication.factor": copies,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": in_sync,
    }


def _addresses(ports: Mapping[str, int]) -> str:
    return ",".join(f"{protocol}://{LOOPBACK}:{port}" for protocol, port in ports.items())
