"""Ctrl-C at a question ends a command at once, also one that asks within a loop of asyncio."""

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.wide  # starts a process
END_S = 10.0
ASKS = """
import asyncio
from services.operator_options import confirm

async def main():
    confirm("Replay it?")

try:
    asyncio.run(main())
except BaseException as error:
    print(type(error).__name__)
"""


def test_ctrl_c_at_a_question_ends_the_command() -> None:
    ours, terminal = pty.openpty()
    command = [sys.executable, "-c", ASKS]
    with (
        os.fdopen(ours, "r+b", buffering=0) as keyboard,
        subprocess.Popen(
            command, stdin=terminal, stdout=subprocess.PIPE, stderr=terminal, start_new_session=True
        ) as started,
    ):
        os.close(terminal)
        shown = b""
        while b"[y/N]" not in shown:
            shown += keyboard.read(1024)
        try:
            _wait_for_its_read(started)
            started.send_signal(signal.SIGINT)
            said, _ = started.communicate(timeout=END_S)
        finally:
            started.kill()

    assert said == b"Abort\n"


def _wait_for_its_read(started: "subprocess.Popen[bytes]") -> None:
    """A signal between Python's last look at signals and its read would not end that read."""
    assert started.stdout is not None
    assert started.stdout.read(1) == b" "  # is flushed before it reads
    until, status = time.monotonic() + END_S, Path(f"/proc/{started.pid}/stat")
    while status.read_text().rpartition(") ")[2][0] != "S":
        assert time.monotonic() < until
        time.sleep(0.001)
