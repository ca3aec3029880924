"""A server in front of the model that passes all on and keeps each raw answer, by its digest."""

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from infra.ports import LOOPBACK
from services.text.digest import text_digest

CALL_LIMIT_S = 600.0


@dataclass(frozen=True, slots=True)
class Recorded:
    """An answer as the model's server gave it, and the wire schema that it was told."""

    content: str
    stop_reason: str
    wire_schema: Any


@dataclass(frozen=True)
class Recorder:
    """`answers` are found by the digest that an Attempt has of its answer."""

    port: int
    answers: dict[str, Recorded]

    @property
    def base_url(self) -> str:
        """What a profile is given instead of the model's address."""
        return f"http://{LOOPBACK}:{self.port}/v1"


@contextmanager
def recording(model_port: int) -> Iterator[Recorder]:
    """A recorder for the model at `model_port`, which may start later."""
    answers: dict[str, Recorded] = {}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._pass_on(b"")

        def do_POST(self) -> None:
            self._pass_on(self.rfile.read(int(self.headers["Content-Length"])))

        def log_message(self, *_: Any) -> None:
            """Nothing: it would disturb the progress bar."""

        def _pass_on(self, body: bytes) -> None:
            try:
                status, reported = _asked(model_port, self.command, self.path, body)
            except (OSError, http.client.HTTPException):  # the survey is being stopped
                status, reported = http.client.BAD_GATEWAY, b"{}"
            if self.command == "POST" and status == http.client.OK:
                _keep(answers, json.loads(body), json.loads(reported))
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(reported)))
            self.end_headers()
            self.wfile.write(reported)

    with ThreadingHTTPServer((LOOPBACK, 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield Recorder(server.server_address[1], answers)
        finally:
            server.shutdown()
            thread.join()


def _asked(port: int, method: str, path: str, body: bytes) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=CALL_LIMIT_S)
    try:
        connection.request(method, path, body or None, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def _keep(answers: dict[str, Recorded], asked: Any, reply: Any) -> None:
    choice = reply["choices"][0]
    content = choice["message"]["content"] or ""
    schema = asked.get("response_format", {}).get("json_schema", {}).get("schema")
    answers[text_digest(content)] = Recorded(content, choice["finish_reason"], schema)
