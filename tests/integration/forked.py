"""Commands of answerbus as processes that are forked, and so begin in milliseconds.

See command_server.py. What a fork cannot take over, such as another library for the clock, needs a
new interpreter: `is_forkable` says so.
"""

import asyncio
import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.integration.command_server import LENGTH_BYTES

ROOT = Path(__file__).parents[2]
READ_AT_START = ("LD_", "PYTHON", "OTEL_", "DYLD_")  # variables that count while modules are loaded
POLL_S = 0.02
_INHERITED = dict(os.environ)  # noqa: TID251 - before any test changes it
_lock = threading.Lock()


@dataclass
class Forked:
    """What tests use of `subprocess.Popen`, of a command that was forked."""

    pid: int
    report: int
    args: Sequence[str] = ()
    returncode: int | None = field(default=None, init=False)

    def poll(self) -> int | None:
        """Its exit code, once it has ended."""
        if self.returncode is None and select.select([self.report], [], [], 0)[0]:
            self.returncode = int(_line(self.report))
            os.close(self.report)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The same, when it has ended. Raises TimeoutExpired."""
        if self.returncode is None and not select.select([self.report], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        code = self.poll()
        assert code is not None
        return code

    def send_signal(self, number: int) -> None:
        """Nothing happens if it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a crash would."""
        self.send_signal(signal.SIGKILL)


def is_forkable(environment: Mapping[str, str]) -> bool:
    """Whether a process with these variables loads the same modules as the server did."""
    return all(
        environment.get(name) == _INHERITED.get(name)
        for name in {*environment, *_INHERITED}
        if name.startswith(READ_AT_START)
    )


def fork(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    streams: tuple[int, int, int],
) -> Forked:
    """Begin a command with these file descriptors as stdin, stdout and stderr."""
    order = {
        "arguments": [*arguments],
        "environment": {**environment},
        "folder": str(folder),
    }
    body = json.dumps(order).encode()
    report, reported = os.pipe()
    try:
        with _lock:
            control = _control()
            head = len(body).to_bytes(LENGTH_BYTES)
            socket.send_fds(control, [head], [*streams, reported])
            control.sendall(body)
    finally:
        os.close(reported)
    return Forked(int(_line(report)), report, arguments)


@cache
def _control() -> socket.socket:
    """The one server of this process; it ends with this process."""
    ours, theirs = socket.socketpair()
    with theirs:
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.command_server"],
            cwd=ROOT,
            env=_INHERITED,
            stdin=theirs.fileno(),
            start_new_session=True,  # Ctrl-C is for the tests, which end what they began
        )
    atexit.register(_end, server, ours)
    return ours


def _end(server: "subprocess.Popen[bytes]", control: socket.socket) -> None:
    control.close()
    server.wait()


def _line(report: int) -> bytes:
    found = b""
    while not found.endswith(b"\n"):
        part = os.read(report, 1)
        assert part, "the command server has ended"
        found += part
    return found


@dataclass
class Command:
    """What tests use of asyncio's processes, of a command that was forked."""

    process: Forked
    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def returncode(self) -> int | None:
        return self.process.poll()

    async def wait(self) -> int:
        """Its exit code, when it has ended."""
        while (code := self.process.poll()) is None:
            await asyncio.sleep(POLL_S)
        return code

    async def communicate(self, given: bytes | None = None) -> tuple[bytes, bytes]:
        """Write, and read all that it prints until its end."""
        if given:
            self.stdin.write(given)
        self.stdin.close()
        out, error = await asyncio.gather(self.stdout.read(), self.stderr.read())
        await self.wait()
        return out, error

    def send_signal(self, number: int) -> None:
        self.process.send_signal(number)

    def terminate(self) -> None:
        self.process.terminate()

    def kill(self) -> None:
        self.process.kill()


async def command(
    arguments: Sequence[str], environment: Mapping[str, str], folder: Path = ROOT
) -> Command:
    """Begin a command, with pipes for its streams."""
    (stdin, to), (out_of, stdout), (errors_of, stderr) = (os.pipe() for _ in range(3))
    theirs = (stdin, stdout, stderr)
    try:
        process = await asyncio.to_thread(fork, arguments, environment, folder, theirs)
    finally:
        for fd in theirs:
            os.close(fd)
    return Command(process, await _writer(to), await _reader(out_of), await _reader(errors_of))


async def _reader(fd: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(fd, "rb", buffering=0)
    )
    return reader


async def _writer(fd: int) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()),
        os.fdopen(fd, "wb", buffering=0),
    )
    return asyncio.StreamWriter(transport, protocol, None, loop)
