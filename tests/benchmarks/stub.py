"""A language model that costs nothing: Chat Completions over HTTP, as cheap as Python can be.

    python -m tests.benchmarks.stub --port 8100 --control 8101

Calls are answered on one port, and with `--tls-port` and `--certificate` on another one over TLS;
on the control port each line is a command in JSON, answered by a line:
`begin` (journal, latency, seed, plan, prices), `stats`, `flush`, `throttle` and `away` (for_s,
retry_after_s).
"""

import argparse
import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from ssl import Purpose, SSLContext, create_default_context
from typing import Any, TextIO

from infra.ports import LOOPBACK
from tests.benchmarks.agents.acting import Acted, Plan, acting
from tests.benchmarks.billing import Bill, Prices
from tests.benchmarks.journal import MARK, MARK_END
from tests.benchmarks.latency import Latency, drawing

ANSWER = {
    "answer": {
        "kind": "dep_bump",
        "manifest_path": "services/api/package.json",
        "package": "lodash",
        "target_version": "4.17.21",
        "rationale": "The advisory names 4.17.21 as the first fixed release; it is a patch.",
    }
}
COMPLETION = {
    "id": "chatcmpl-stub",
    "object": "chat.completion",
    "created": 1,
    "model": "stub",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": json.dumps(ANSWER), "refusal": None},
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 812, "completion_tokens": 64, "total_tokens": 876},
}
_MODELS = {"object": "list", "data": [{"id": "stub", "object": "model"}]}
_BUSY = {"error": {"message": "slow down", "type": "requests", "code": "rate_limit_exceeded"}}
_AWAY = {"error": {"message": "not now", "type": "server_error", "code": None}}
_BACKLOG = 4_096  # connections that wait to be accepted


def _response(status: str, document: Any, *headers: str) -> bytes:
    return _framed(status, json.dumps(document).encode(), *headers)


def _framed(status: str, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", *headers]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


_ANSWERED = _response("200 OK", COMPLETION)
_LISTED = _response("200 OK", _MODELS)


class Stub:
    """What all connections share: the mode, the journal and the numbers."""

    def __init__(self, port: int, tls: tuple[int, SSLContext] | None = None) -> None:
        self._ports: list[tuple[int, SSLContext | None]] = [(port, None), *([tls] if tls else [])]
        self._servers: list[asyncio.Server] = []
        self._journal: TextIO | None = None
        self.latency_of: Callable[[bytes], float] = lambda _: 0.0
        self.refusal: bytes | None = None  # said to everybody at the moment
        self.status = 200
        self.act: Callable[[bytes, bytes], Acted] | None = None  # for agents
        self.bill: Bill | None = None
        self.arrived = self.answered = self.refused = self.in_flight = self.ended = 0

    async def listen(self) -> None:
        """Take connections."""
        loop = asyncio.get_running_loop()
        self._servers = [
            await loop.create_server(
                lambda: Conversation(self), LOOPBACK, port, ssl=tls, backlog=_BACKLOG
            )
            for port, tls in self._ports
        ]

    def close(self) -> None:
        """Take no more, and keep what was written."""
        self._refuse_connections()
        if self._journal:
            self._journal.close()

    def note(self, call: bytes, arrived: float, status: int) -> None:
        """Write a call down once it is over; status 0: the caller hung up."""
        if self._journal:
            self._journal.write(f"{call.decode()}\t{arrived:.6f}\t{time.time():.6f}\t{status}\n")

    async def carry_out(self, command: dict[str, Any]) -> dict[str, Any]:
        """Do what a line on the control port says."""
        match command.pop("do"):
            case "begin":
                self._begin(**command)
            case "flush" if self._journal:
                self._journal.flush()
            case "throttle":
                self._refuse(429, "429 Too Many Requests", _BUSY, **command)
            case "away":
                self._refuse_connections()
                self._refuse(503, "503 Service Unavailable", _AWAY, **command)
            case _:
                pass
        return {
            "arrived": self.arrived,
            "answered": self.answered,
            "refused": self.refused,
            "in_flight": self.in_flight,
            "ended": self.ended,
            "read_tokens": self.bill.read if self.bill else 0,
            "cached_tokens": self.bill.cached if self.bill else 0,
            "billed_micro_usd": self.bill.micro_usd if self.bill else 0,
        }

    def _begin(
        self,
        journal: str,
        latency: dict[str, Any],
        seed: int,
        plan: dict[str, Any] | None = None,
        prices: dict[str, Any] | None = None,
    ) -> None:
        if self._journal:
            self._journal.close()
        self._journal = Path(journal).open("w", buffering=1 << 20)  # noqa: SIM115 - kept open
        self.latency_of = drawing(Latency(**latency), seed)
        self.act = None
        self.bill = Bill(Prices(**prices), json.dumps(ANSWER)) if prices else None
        if plan:
            self.act = acting(Plan(**{**plan, "tools": tuple(plan["tools"])}))
        self.arrived = self.answered = self.refused = self.in_flight = self.ended = 0

    def response_to(self, body: bytes, call: bytes) -> bytes:
        """What a call is answered with."""
        if self.bill:
            return _framed("200 OK", self.bill.completion(body.partition(b"\r\n\r\n")[2], call))
        if self.act is None:
            return _ANSWERED
        acted = self.act(body, call)
        self.ended += acted.is_end
        return _framed("200 OK", acted.content)

    def _refuse(self, status: int, title: str, body: Any, for_s: float, retry_after_s: int) -> None:
        # Who is connected already is told so: a connection closed under a call would say nothing
        # about whether the call ran.
        close = ["Connection: close"] if status == 503 else []
        self.status = status
        self.refusal = _response(title, body, f"Retry-After: {retry_after_s}", *close)
        self._recovering = asyncio.get_running_loop().create_task(self._recover(for_s))

    def _refuse_connections(self) -> None:
        for server in self._servers:
            server.close()
        self._servers = []

    async def _recover(self, after_s: float) -> None:
        await asyncio.sleep(after_s)
        if not self._servers:
            await self.listen()
        self.refusal, self.status = None, 200


class Conversation(asyncio.Protocol):
    """One connection: one call after another."""

    _transport: asyncio.Transport

    def __init__(self, stub: Stub) -> None:
        self._stub = stub
        self._buffer = b""
        self._call = self._body = b""
        self._arrived = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        head_end = self._buffer.find(b"\r\n\r\n")
        if head_end < 0:
            return
        if self._buffer.startswith(b"GET"):
            self._buffer = b""
            self._transport.write(_LISTED)
            return
        head = self._buffer[:head_end].lower()
        at = head.find(b"content-length:") + 15
        length = int(head[at : head.find(b"\r", at) if b"\r" in head[at:] else None])
        if len(self._buffer) < head_end + 4 + length:
            return
        body, self._buffer = self._buffer, b""
        self._take(body)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer:
            self._timer.cancel()
            self._stub.in_flight -= 1
            self._stub.note(self._call, self._arrived, 0)

    def _take(self, body: bytes) -> None:
        stub, self._arrived = self._stub, time.time()
        begin = body.find(MARK) + len(MARK)
        self._call, self._body = body[begin : body.find(MARK_END, begin)], body
        stub.arrived += 1
        if stub.refusal is not None:
            stub.refused += 1
            stub.note(self._call, self._arrived, stub.status)
            self._transport.write(stub.refusal)
            if stub.status == 503:
                self._transport.close()
            return
        stub.in_flight += 1
        latency_s = stub.latency_of(self._call)
        if latency_s:
            self._timer = asyncio.get_running_loop().call_later(latency_s, self._answer)
        else:
            self._answer()

    def _answer(self) -> None:
        self._timer = None
        stub = self._stub
        stub.in_flight -= 1
        stub.answered += 1
        stub.note(self._call, self._arrived, 200)
        self._transport.write(stub.response_to(self._body, self._call))


async def serve(port: int, control: int, tls: tuple[int, SSLContext] | None) -> None:
    """Answer until killed."""
    stub = Stub(port, tls)
    await stub.listen()

    async def control_by(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(json.dumps(await stub.carry_out(json.loads(line))).encode() + b"\n")
        writer.close()

    async with await asyncio.start_server(control_by, LOOPBACK, control) as server:
        await server.serve_forever()


def beginning(
    journal: Path,
    latency: Latency,
    seed: int,
    plan: Plan | None = None,
    prices: Prices | None = None,
) -> dict[str, Any]:
    """The command that starts a new journal.

    With a plan, what is asked are steps of agents; with prices, the stub bills what it reads.
    """
    fields = {"do": "begin", "journal": str(journal), "latency": asdict(latency), "seed": seed}
    more = {"plan": plan and asdict(plan), "prices": prices and asdict(prices)}
    return {**fields, **{name: value for name, value in more.items() if value is not None}}


def main() -> None:
    """As the options say."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--control", type=int, required=True)
    parser.add_argument("--tls-port", type=int)
    parser.add_argument("--certificate", help="a file with key and certificate")
    options = parser.parse_args()
    tls = None
    if options.certificate:
        context = create_default_context(Purpose.CLIENT_AUTH)
        context.load_cert_chain(options.certificate)
        tls = options.tls_port, context
    asyncio.run(serve(options.port, options.control, tls))


if __name__ == "__main__":
    main()
