"""The command `answerbus` as a process, on a test's own topics."""

import asyncio
import os
import signal
from dataclasses import dataclass

from tests.integration.forked import Command, command

LIMIT_S = 60.0


@dataclass(frozen=True)
class Ended:
    """What a command left behind."""

    code: int
    out: str
    err: str


async def start(bootstrap: str, prefix: str, *arguments: str, **settings: str) -> Command:
    """A command with its settings as variables; `settings` are further ones of `[kafka]`."""
    given = {"bootstrap_servers": bootstrap, "topic_prefix": prefix, **settings}
    clean = {k: v for k, v in os.environ.items() if not k.startswith("ANSWERBUS_")}  # noqa: TID251
    variables = {f"ANSWERBUS_KAFKA__{name.upper()}": value for name, value in given.items()}
    return await command(arguments, {**clean, **variables, "COLUMNS": "200"})


async def ended(process: Command, stdin: bytes = b"", limit_s: float = LIMIT_S) -> Ended:
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


async def interrupt(process: Command, number: int = signal.SIGINT) -> Ended:
    """Press Ctrl-C, or send another signal."""
    process.send_signal(number)
    return await ended(process)
