"""The cluster of docker-compose.yml without an engine: `make compose`.

Its services' own commands and settings, as processes: certificates, three brokers with TLS and
passwords, the topics, a worker; and a question. Only places are others: ports, folders, the model.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from rich.console import Console

from infra.kafka.broker import Broker, new_cluster_id, start_broker
from infra.kafka.java import java_command
from infra.ports import LOOPBACK, free_ports
from infra.server_process import ServerProcess
from tests.infra.compose import ROOT, Service, broker_properties, environment, services

NUMBERS = (1, 2, 3)
LIMIT_S = 120.0
EXIT_SET_UP = 3
HEAP_MB = 256
SETTINGS = ROOT / "infra/answerbus.docker.toml"
ANSWER = "Two."
PROTOCOLS = "listener.security.protocol.map"


class Places:
    """Where each thing of a container is on this machine."""

    def __init__(self, folder: Path) -> None:
        ports = free_ports(9)
        self.folder = folder
        self.plain = dict(zip(NUMBERS, ports[:3], strict=True))
        self.secured = dict(zip(NUMBERS, ports[3:6], strict=True))
        self.controllers = dict(zip(NUMBERS, ports[6:], strict=True))
        self.certificates = folder / "certificates"

    def here(self, text: str) -> str:
        """With hosts and folders of this machine."""
        for number in NUMBERS:
            text = text.replace(f"kafka-{number}:9092", f"localhost:{self.secured[number]}")
            text = text.replace(f"kafka-{number}:9093", f"localhost:{self.controllers[number]}")
        return text.replace("/certificates/", f"{self.certificates}/")


def make_certificates(places: Places) -> None:
    """The command of the service of that name; keytool is that of our Java."""
    places.certificates.mkdir()
    _, script, _, *names = services()["certificates"]["command"]
    file = ROOT / "infra/docker" / script.lstrip("/")
    java = Path(java_command()[0]).parent
    around = {**os.environ, "PATH": f"{java}:{os.environ['PATH']}"}  # noqa: TID251 - for a child
    subprocess.run(
        ["bash", file, places.certificates, *names],
        env=around,
        check=True,
        capture_output=True,
        timeout=LIMIT_S,
    )


def grant_rights(places: Places) -> None:
    """The command of the service of that name; tests/compose/granting.py is its `kafka-acls.sh`."""
    service = services()["cluster-rights"]
    text = (ROOT / "infra/docker" / service["command"][1].lstrip("/")).read_text(encoding="utf-8")
    folder = places.folder / "bin"
    folder.mkdir()
    command = folder / "kafka-acls.sh"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m tests.compose.granting "$@"\n')
    command.chmod(0o755)
    own = {name: places.here(value) for name, value in environment(service).items()}
    path = os.environ["PATH"]  # noqa: TID251 - for a child
    subprocess.run(
        ["bash", "-c", places.here(text)],
        env={**own, "PATH": f"{folder}:{path}", "PYTHONPATH": str(ROOT)},
        check=True,
        cwd=ROOT,
        timeout=LIMIT_S,
    )


def broker(number: int, places: Places, cluster_id: str) -> Broker:
    """One of the three, as its variables say; a plain listener beside tells when it is up."""
    given = broker_properties(services()[f"kafka-{number}"])
    fields = {name: places.here(value) for name, value in given.items() if name != "log.dirs"}
    plain = f"PLAINTEXT://{LOOPBACK}:{places.plain[number]}"
    secured = f"SECURED://localhost:{places.secured[number]}"
    controller = f"CONTROLLER://localhost:{places.controllers[number]}"
    own = {
        "listeners": f"{plain},{secured},{controller}",
        "advertised.listeners": f"{plain},{fields['advertised.listeners']}",
        PROTOCOLS: f"PLAINTEXT:PLAINTEXT,{fields[PROTOCOLS]}",
    }
    return start_broker(
        places.folder / f"kafka-{number}",
        port=places.plain[number],
        properties={**fields, **own},
        cluster_id=cluster_id,
        java=java_command(HEAP_MB),
        limit_s=LIMIT_S,
    )


@contextmanager
def model() -> Iterator[str]:
    """A server that lists the model and answers all with the same."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._say({"data": [{"id": "local-small"}]})

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            choice = {"message": {"content": ANSWER}, "finish_reason": "stop"}
            usage = {"prompt_tokens": 9, "completion_tokens": 2}
            self._say({"choices": [choice], "usage": usage})

        def _say(self, body: Mapping[str, object]) -> None:
            text = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Quietly."""

    server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://{LOOPBACK}:{server.server_address[1]}/v1"
    finally:
        server.shutdown()


def variables(service: Service, places: Places, url: str, health: int) -> dict[str, str]:
    """Those of the service, and where this machine has what it asks."""
    kept = ("PATH", "HOME", "LANG", "PYTHONPATH")
    inherited = {name: os.environ[name] for name in kept if name in os.environ}  # noqa: TID251
    own = {name: places.here(value) for name, value in environment(service).items() if value}
    return {
        **inherited,
        **own,
        "ANSWERBUS_PROFILES__DEFAULT__BASE_URL": url,
        "ANSWERBUS_WORKER__HEALTH": f"{LOOPBACK}:{health}",
    }


def command(service: Service) -> list[str]:
    """As the container runs it, with the file that is mounted there."""
    words = [str(SETTINGS) if word.endswith(".toml") else word for word in service["command"]]
    return [sys.executable, "-m", "services.cli", *words]


def main(say: Callable[[str], None]) -> None:
    """All of it. Raises what went wrong."""
    began = time.monotonic()

    def told(what: str) -> None:
        say(f"{time.monotonic() - began:5.1f} s  {what}")

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="compose-")))
        places, url = Places(folder), stack.enter_context(model())
        (health,) = free_ports(1)
        make_certificates(places)
        told("an authority and three certificates")
        cluster_id = new_cluster_id()
        with ThreadPoolExecutor(len(NUMBERS)) as starting:
            started = starting.map(lambda number: broker(number, places, cluster_id), NUMBERS)
            for one in started:
                stack.callback(one.stop)
        told("three brokers with TLS and passwords")
        grant_rights(places)
        told("rights of three users")
        topics = services()["cluster-topics"]
        around = variables(topics, places, url, health)
        subprocess.run(command(topics), env=around, check=True, timeout=LIMIT_S, cwd=ROOT)
        told("all topics, in three copies")
        worker = services()["cluster-worker"]
        around = variables(worker, places, url, health)
        process = ServerProcess.start(command(worker), folder / "worker.log", "worker", around)
        stack.callback(process.stop, 30.0)
        app = services()["cluster-app"]
        own = variables(app, places, url, health)
        asked = subprocess.run(
            command(app),
            env=own,
            cwd=ROOT,
            timeout=LIMIT_S,
            check=True,
            capture_output=True,
            text=True,
        )
        assert asked.stdout.strip() == ANSWER, asked.stdout
        told("an answer to an app of its own")
        refused = subprocess.run(
            command(worker), env=own, cwd=ROOT, timeout=LIMIT_S, check=False, capture_output=True
        )
        assert refused.returncode == EXIT_SET_UP, refused
        told("and no worker as that user")


if __name__ == "__main__":
    main(Console(highlight=False, soft_wrap=True).print)
