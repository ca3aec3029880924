"""Services of docker-compose.yml as processes of this machine: their own commands and settings."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from infra.kafka.broker import Broker, new_cluster_id, start_broker
from infra.kafka.java import java_command
from infra.ports import LOOPBACK
from infra.server_process import ServerProcess
from tests.alerts.prometheus import Prometheus
from tests.compose import observing
from tests.compose.places import places
from tests.infra.compose import ROOT, Service, environment, of_profile, services

LIMIT_S = 300.0  # for each program; a busy machine needs much of it
STOP_S = 30.0
HEAP_MB = 256
SETTINGS = ROOT / "infra/answerbus.docker.toml"
BROKER_IMAGE = "apache/kafka:"


class Machine:
    """What runs of one profile; `model_url` is where its workers ask."""

    def __init__(self, profile: str, folder: Path, model_url: str) -> None:
        brokers = [
            name
            for name, service in of_profile(profile).items()
            if service.get("image", "").startswith(BROKER_IMAGE)
            and "KAFKA_NODE_ID" in environment(service)
        ]
        self.places = places(folder, brokers)
        self._model_url, self._collector_url = model_url, ""
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start_brokers(self) -> None:
        """All of them, side by side: those of a quorum answer only together."""
        cluster_id, names = new_cluster_id(), list(self.places.plain)
        with ThreadPoolExecutor(len(names)) as starting:
            for one in starting.map(lambda name: self._broker(name, cluster_id), names):
                self._stack.callback(one.stop)

    def run(
        self, name: str, *words: str, user: str | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """A service that ends; `words` in place of its command's, `user` a service as whom."""
        service = services()[name]
        return subprocess.run(
            self._command(service, *words),
            env=self._variables(services()[user or name]),
            cwd=ROOT,
            timeout=LIMIT_S,
            check=False,
            capture_output=True,
            text=True,
        )

    def start(self, name: str) -> ServerProcess:
        """A service that goes on until the end."""
        service, log = services()[name], self.places.folder / f"{name}.log"
        process = ServerProcess.start(self._command(service), log, name, self._variables(service))
        self._stack.callback(process.stop, STOP_S)
        return process

    def start_collector(self) -> ServerProcess:
        """The collector; what starts after it sends it spans."""
        process, self._collector_url = observing.start_collector(self.places.folder)
        self._stack.callback(process.stop, STOP_S)
        return process

    def start_prometheus(self) -> tuple[ServerProcess, Prometheus]:
        """Prometheus, which scrapes the worker."""
        scraped = f"{LOOPBACK}:{self.places.health}"
        process, own = observing.start_prometheus(self.places.folder, scraped)
        self._stack.callback(process.stop, STOP_S)
        return process, own

    def is_healthy(self, name: str) -> bool:
        """What the service's own check says."""
        _, program, *words = services()[name]["healthcheck"]["test"]
        assert program == "python"
        check = [sys.executable, *map(self.places.here, words)]
        return not subprocess.run(
            check, capture_output=True, timeout=LIMIT_S, check=False
        ).returncode

    def make_certificates(self) -> None:
        """The command of the service of that name; keytool is that of our Java."""
        self.places.certificates.mkdir()
        _, script, _, *names = services()["certificates"]["command"]
        java = Path(java_command()[0]).parent
        words = ["bash", ROOT / "infra/docker" / script.lstrip("/"), self.places.certificates]
        subprocess.run(
            [*words, *names], env=_with_path(java), check=True, capture_output=True, timeout=LIMIT_S
        )

    def grant_rights(self) -> None:
        """That of `cluster-rights`; tests/compose/granting.py is its `kafka-acls.sh`."""
        service = services()["cluster-rights"]
        script = ROOT / "infra/docker" / service["command"][1].lstrip("/")
        folder = self.places.folder / "bin"
        folder.mkdir()
        command = folder / "kafka-acls.sh"
        command.write_text(f'#!/bin/sh\nexec {sys.executable} -m tests.compose.granting "$@"\n')
        command.chmod(0o755)
        around = {**_with_path(folder), "PYTHONPATH": str(ROOT)}
        text = self.places.here(script.read_text(encoding="utf-8"))
        subprocess.run(
            ["bash", "-c", text],
            env=self.places.variables(service, around),
            check=True,
            cwd=ROOT,
            timeout=LIMIT_S,
        )

    def _broker(self, name: str, cluster_id: str) -> Broker:
        return start_broker(
            self.places.folder / name,
            port=self.places.plain[name],
            properties=self.places.properties_of(name),
            cluster_id=cluster_id,
            java=java_command(HEAP_MB),
            limit_s=LIMIT_S,
        )

    def _command(self, service: Service, *words: str) -> list[str]:
        """As the container runs it, with the file that is mounted there."""
        command = words or service["command"]
        own = [str(SETTINGS) if word.endswith(".toml") else word for word in command]
        return [sys.executable, "-m", "services.cli", *own]

    def _variables(self, service: Service) -> dict[str, str]:
        kept = ("PATH", "HOME", "LANG", "PYTHONPATH")
        inherited = {name: os.environ[name] for name in kept if name in os.environ}  # noqa: TID251
        return {
            **self.places.variables(service, inherited),
            "ANSWERBUS_PROFILES__DEFAULT__BASE_URL": self._model_url,
            "ANSWERBUS_WORKER__HEALTH": f"{LOOPBACK}:{self.places.health}",
            "OTEL_EXPORTER_OTLP_ENDPOINT": self._collector_url,
        }


def _with_path(folder: Path) -> dict[str, str]:
    own = dict(os.environ)  # noqa: TID251 - for a child
    return {**own, "PATH": f"{folder}:{own['PATH']}"}
