"""Ctrl-C at a question ends a command at once, also one that asks within a loop of asyncio."""

import os
import pty
import signal
import subprocess
import sys

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
            started.send_signal(signal.SIGINT)
            said, _ = started.communicate(timeout=END_S)
        finally:
            started.kill()

    assert said == b"Abort\n"
