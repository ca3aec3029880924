"""A collector that misbehaves costs a worker neither time nor memory."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from threading import Thread
from threading import enumerate as enumerate_threads

import pytest

from answerbus.trace import new_trace
from services.telemetry import otlp
from services.telemetry.otlp import Otlp
from services.telemetry.span import Span

ENDLESS = 64 * 1024 * 1024


class Collector:
    """Takes connections, and answers with as many bytes as are taken, or not at all."""

    def __init__(self, listening: socket.socket, size: int, head: bytes) -> None:
        self._listening, self._size, self._head, self.sent = listening, size, head, 0

    def serve(self) -> None:
        with suppress(OSError), ExitStack() as held:
            while True:
                client = held.enter_context(self._listening.accept()[0])
                if self._size:
                    self._answer(client)

    def _answer(self, client: socket.socket) -> None:
        sent = 0
        with suppress(OSError), client:
            client.recv(64 * 1024)
            client.sendall(b"HTTP/1.1 %b\r\n\r\n" % self._head)
            while sent < self._size:
                sent += client.send(b"x" * 65_536)
        self.sent = max(self.sent, sent)


@contextmanager
def collector(size: int, head: bytes = b"200 OK") -> Iterator[tuple[Collector, str]]:
    """The SDK's threads end with it: they draw random numbers, in other tests as well."""
    others = set(enumerate_threads())
    with socket.create_server(("127.0.0.1", 0)) as listening:
        found = Collector(listening, size, head)
        serving = Thread(target=found.serve, daemon=True)
        serving.start()
        yield found, f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
    for thread in set(enumerate_threads()) - others:
        thread.join(5.0)


def send_one(to: Otlp) -> None:
    now = datetime(2026, 11, 28, tzinfo=UTC)
    to.span(Span("x", "client", new_trace("seed", "x"), None, now, now, {}, failed=False))


@pytest.mark.wide  # the SDK tries again for some seconds
def test_a_collector_that_does_not_answer_holds_the_end_up_for_a_limited_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(otlp, "CLOSE_S_MAX", 0.5, raising=False)
    with collector(0) as (_, address):
        exporter = Otlp(address, "w")
        send_one(exporter)
        began = time.monotonic()
        exporter.close()

        assert time.monotonic() - began < 3.0


def test_spans_that_are_redirected_are_reported_as_lost(caplog: pytest.LogCaptureFixture) -> None:
    with collector(1, b"301 Moved\r\nLocation: https://127.0.0.1:1/v1/traces") as (_, address):
        exporter = Otlp(address, "w")
        send_one(exporter)
        exporter.close()

    assert "name its final address" in caplog.text


@pytest.mark.parametrize("head", [b"200 OK", b"307 Moved\r\nLocation: http://127.0.0.1:1/"])
def test_an_endless_answer_is_not_read_to_its_end(head: bytes) -> None:
    with collector(ENDLESS, head) as (found, address):
        exporter = Otlp(address, "w")
        send_one(exporter)
        exporter.close()

    assert 0 < found.sent < ENDLESS
