"""A one-node broker on a data folder: start it, find it again, stop or kill it, restart it."""

import base64
import json
import socket
import struct
import subprocess
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Self

from infra.cache import file_lock
from infra.kafka.java import KAFKA_VERSION, java_command
from infra.ports import LOOPBACK, PortTakenError, free_ports, is_free
from infra.server_process import ServerProcess, last_lines
from infra.setup_error import SetupError

FORMAT_LIMIT_S = 60.0
START_LIMIT_S = 60.0
STOP_LIMIT_S = 20.0
_STATE = "broker.json"
_NO_CHANGES: Mapping[str, str] = MappingProxyType({})
_NO_LISTENERS: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True)
class Broker:
    """A broker that was started on `data`, by this process or another one."""

    data: Path
    port: int
    process: ServerProcess

    @property
    def bootstrap_servers(self) -> str:
        """The bootstrap server: host and port."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def running(self) -> bool:
        """Whether the process is there; see `answers` for more."""
        return self.process.running

    def answers(self) -> bool:
        """Whether it serves requests now."""
        return answers(self.port)

    def stop(self) -> None:
        """End it in good order, by force after STOP_LIMIT_S; the data stay."""
        self.process.stop(STOP_LIMIT_S)

    def kill(self) -> None:
        """End it as a crash does (SIGKILL); it may be started again on the same data."""
        self.process.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start_broker(
    data: Path,
    port: int = 0,
    properties: Mapping[str, str] = _NO_CHANGES,
    listeners: Mapping[str, int] = _NO_LISTENERS,
    say: Callable[[str], None] = lambda _step: None,
    *,
    cluster_id: str | None = None,
    java: Sequence[str] | None = None,
    limit_s: float = START_LIMIT_S,
) -> Broker:
    """Start a broker on `data` (made if absent) and return it once it answers requests.

    `port` 0 takes a free one; `properties` override the broker's; `say` gets each step;
    `cluster_id` is that of the cluster it belongs to, by default one of its own; `java` is what
    runs a class of Kafka, by default `java_command()`.
    `listeners` are further ones: ports by security protocol (`SASL_SSL`, …). What these need
    is in `properties`.
    SetupError: the port or the folder is in use, or Java ended early (with the end of its log).
    """
    data = data.resolve()
    with file_lock(data / "start.lock"):
        other = find_broker(data)
        if other is not None:
            where = f"{other.bootstrap_servers} (pid {other.pid})"
            raise SetupError(f"{data} is in use by the broker at {where}: stop that one first.")
        if port and not is_free(port):
            raise PortTakenError(port)
        free, controller_port = free_ports(2, other_than=(port, *listeners.values()))
        port = port or free
        say("Looking for Kafka's jars (the first time: a download of 45 MB)")
        java = java or java_command()
        settings = data / "server.properties"
        segments = data / "log"
        settings.write_bytes(
            server_properties(
                segments, {"PLAINTEXT": port, **listeners}, controller_port, properties
            )
        )
        if not (segments / "meta.properties").exists():
            say("Formatting the data folder")
            _format(java, settings, cluster_id or new_cluster_id())
        say(f"Starting Kafka {KAFKA_VERSION}")
        return _launch(java, settings, port, limit_s)


def find_broker(data: Path) -> Broker | None:
    """The broker that runs on `data` now, if any; a state file left by a crash is not a broker."""
    data = data.resolve()
    try:
        state = json.loads((data / _STATE).read_text())
        process = ServerProcess(int(state["pid"]), _log(data), str(data / "server.properties"))
        broker = Broker(data, int(state["port"]), process)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return broker if broker.running else None


def _log(data: Path) -> Path:
    return data / "kafka.log"


def new_cluster_id() -> str:
    """A cluster's name, which its brokers share."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def _format(java: Sequence[str], settings: Path, cluster: str) -> None:
    data = settings.parent
    # "--cluster-id=", not "-t": an id may begin with a dash and would be taken for an option.
    arguments = [f"--cluster-id={cluster}", "--config", str(settings)]
    command = [*java, "kafka.tools.StorageTool", "format", *arguments]
    try:
        with _log(data).open("wb") as log:
            subprocess.run(
                command, stdout=log, stderr=subprocess.STDOUT, timeout=FORMAT_LIMIT_S, check=True
            )
    except subprocess.SubprocessError as error:
        raise SetupError(f"Kafka cannot format {data}:\n{last_lines(_log(data))}") from error


def _launch(java: Sequence[str], settings: Path, port: int, limit_s: float) -> Broker:
    data = settings.parent
    command = [*java, "kafka.Kafka", str(settings)]
    broker = Broker(data, port, ServerProcess.start(command, _log(data), str(settings)))
    fresh = data / f"{_STATE}.new"
    fresh.write_text(json.dumps({"pid": broker.pid, "port": port}))
    fresh.replace(data / _STATE)
    broker.process.wait_until(broker.answers, limit_s)
    return broker


def server_properties(
    segments: Path,
    ports: Mapping[str, int],
    controller_port: int,
    changes: Mapping[str, str],
) -> bytes:
    """The file's content; `changes` override and extend what a one-node broker needs.

    `ports` are those of its listeners by security protocol; each protocol may have one.
    """
    places = [f"{protocol}://{LOOPBACK}:{port}" for protocol, port in ports.items()]
    protocols = ["CONTROLLER:PLAINTEXT", *(f"{protocol}:{protocol}" for protocol in ports)]
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": ",".join([*places, f"CONTROLLER://{LOOPBACK}:{controller_port}"]),
        "advertised.listeners": ",".join(places),
        "listener.security.protocol.map": ",".join(protocols),
        "log.dirs": str(segments),
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        # A broker killed and started again is let in once its former session has run out: by
        # default that takes 9 s. Heartbeats every 0.5 s keep a living one well inside of 3 s.
        "broker.heartbeat.interval.ms": "500",
        "broker.session.timeout.ms": "3000",
        "group.initial.rebalance.delay.ms": "0",
        # By default an abandoned transaction is looked for every 10 s only.
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        **changes,
    }
    text = "".join(f"{key}={value}\n" for key, value in properties.items())
    return text.encode("latin-1", "backslashreplace")  # as Java reads such a file


_LIMIT_S = 5.0
# Metadata v1 (api 3) without topics: size, api, version, correlation id, no client id, 0 topics.
_METADATA_REQUEST = struct.pack(">ihhihi", 14, 3, 1, 1, -1, 0)
_HEAD = struct.Struct(">iii")  # of the answer: size, correlation id, number of running brokers


def answers(port: int) -> bool:
    """Whether a broker on this machine answers and counts itself among the running ones."""
    try:
        with (
            socket.create_connection((LOOPBACK, port), _LIMIT_S) as connection,
            connection.makefile("rb") as reply,
        ):
            connection.sendall(_METADATA_REQUEST)
            head = reply.read(_HEAD.size)
    except OSError:
        return False
    return len(head) == _HEAD.size and _HEAD.unpack(head)[2] > 0
