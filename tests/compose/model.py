"""A model server for `make compose`: it says one thing, or has it said by a tool first."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from infra.ports import LOOPBACK

ANSWER = "Two."
PHRASE = "Said by a tool."
TOOL = "echo.echo"
NAME = "local-small"


def reply(asked: Mapping[str, Any]) -> str:
    """A text, or the next step of a run: it calls the tool, and repeats what that said."""
    if "response_format" not in asked:
        return ANSWER
    match json.dumps(asked["messages"]).count(PHRASE):
        case 0:
            step = {"kind": "tool_call", "name": TOOL, "args": {"phrase": PHRASE}}
        case 1:  # the call alone
            step = {"kind": "text_response", "content": "The tool said nothing."}
        case _:
            step = {"kind": "text_response", "content": PHRASE}
    return json.dumps({"actions": [step]})


@contextmanager
def model() -> Iterator[str]:
    """One that runs: the address of its API."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._say({"data": [{"id": NAME}]})

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            choice = {"message": {"content": reply(asked)}, "finish_reason": "stop"}
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
