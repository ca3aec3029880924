"""The server.properties of a one-node broker."""

from collections.abc import Mapping
from pathlib import Path

from infra.ports import LOOPBACK


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
