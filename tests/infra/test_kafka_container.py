"""Kafka in Docker, against an engine that only says what it was asked for: none runs here."""

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from testcontainers.core.config import testcontainers_config

from infra.kafka.broker import answers
from tests.integration import container
from tests.integration.container import docker_answers, kafka_container, settings

ID = "c0ffee" * 10 + "beef"
LOG = b"\x01\x00\x00\x00\x00\x00\x00\x04gone"


class Engine(ThreadingHTTPServer):
    """As much of Docker's API as a container needs from its creation to its end."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.seen: list[tuple[str, str]] = []
        self.created: dict[str, Any] = {}


class _Answers(BaseHTTPRequestHandler):
    server: Engine

    def log_message(self, *_: Any) -> None:
        pass

    def _handle(self) -> None:
        path = re.sub(r"^/v[\d.]+", "", self.path.partition("?")[0])
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.seen.append((self.command, path))
        match self.command, path:
            case _, "/_ping":
                self._send(b"OK", "text/plain")
            case "GET", "/version":
                self._send({"ApiVersion": "1.47", "MinAPIVersion": "1.24"})
            case "POST", "/containers/create":
                self.server.created = json.loads(body)
                self._send({"Id": ID, "Warnings": []}, status=201)
            case "GET", found if found.startswith("/images/"):
                self._send({"Id": ID, "RepoTags": []})
            case "GET", found if found.endswith("/logs"):
                self._send(LOG, "application/vnd.docker.multiplexed-stream")
            case "GET", found if found.startswith("/containers/"):
                self._send({"Id": ID, "Name": "/kafka", "Config": {"Tty": False}})
            case _:
                self._send(b"", "text/plain", status=204)

    do_GET = do_POST = do_HEAD = do_DELETE = _handle  # noqa: N815 - the names of the library

    def _send(self, content: Any, kind: str = "application/json", status: int = 200) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    with Engine() as engine:
        thread = threading.Thread(target=engine.serve_forever)
        thread.start()
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{engine.server_port}")
        # Else a second container would be started, which removes those whose test was killed.
        monkeypatch.setattr(testcontainers_config, "ryuk_disabled", True)
        yield engine
        engine.shutdown()
        thread.join()


def test_the_container_is_the_broker_of_docker_compose(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container, "answers", lambda _: True)
    image, environment, host = settings()

    assert docker_answers()
    with kafka_container() as servers:
        assert ("DELETE", f"/containers/{ID}") not in engine.seen
    port = servers.rpartition(":")[2]
    reported = dict(pair.split("=", 1) for pair in engine.created["Env"])

    assert engine.created["Image"] == image
    assert engine.created["Hostname"] == host
    assert engine.created["HostConfig"]["PortBindings"] == {
        "29092/tcp": [{"HostIp": "127.0.0.1", "HostPort": port}]
    }
    assert reported == environment | {
        "KAFKA_ADVERTISED_LISTENERS": f"INSIDE://kafka:9092,HOST://127.0.0.1:{port}"
    }
    assert ("DELETE", f"/containers/{ID}") in engine.seen


def test_a_broker_that_never_answers_is_removed_and_quoted(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container, "START_LIMIT_S", 0.0)

    with pytest.raises(TimeoutError, match="gone"), kafka_container():
        pass
    assert ("DELETE", f"/containers/{ID}") in engine.seen


def test_without_an_engine_there_is_no_container(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
    monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")

    assert not docker_answers()
    assert not answers(port)
