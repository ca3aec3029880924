"""The command `answerbus` as a process, on a test's own topics."""

import asyncio
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIMIT_S = 60.0


@dataclass(frozen=True)
class Ended:
    """What a command left behind."""

    code: int
    out: str
    err: str


async def start(
    bootstrap: str, prefix: str, *arguments: str, **settings: str
) -> asyncio.subprocess.Process:
    """A command with its settings as variables; `settings` are further ones of `[kafka]`."""
    given = {"bootstrap_servers": bootstrap, "topic_prefix": prefix, **settings}
    clean = {k: v for k, v in os.environ.items() if not k.startswith("ANSWERBUS_")}  # noqa: TID251
    variables = {f"ANSWERBUS_KAFKA__{name.upper()}": value for name, value in given.items()}
    path = {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "COLUMNS": "200"}
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "services.cli",
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**clean, **variables, **path},
    )


async def ended(
    process: asyncio.subprocess.Process, stdin: bytes = b"", limit_s: float = LIMIT_S
) -> Ended:
    """Its end, within a limit."""
    try:
        async with asyncio.timeout(limit_s):
            out, err = await process.communicate(stdin)
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(), err.decode())


async def answerbus(
    bootstrap: str, prefix: str, *arguments: str, stdin: bytes = b"", **settings: str
) -> Ended:
    """Run a command to its end."""
    return await ended(await start(bootstrap, prefix, *arguments, **settings), stdin)


async def interrupt(process: asyncio.subprocess.Process) -> Ended:
    """Press Ctrl-C."""
    process.send_signal(signal.SIGINT)
    return await ended(process)
