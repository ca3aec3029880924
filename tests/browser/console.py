"""The command `answerbus console` as a process, and the pages of it that there are."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.integration.bus import ROOT

START_S = 30.0
STOP_S = 10.0
OPERATOR, VIEWER = "an-operator-token-for-tests", "a-viewer-token-for-tests"


@dataclass(frozen=True)
class Console:
    url: str
    log: Path


@asynccontextmanager
async def console(config: Path, *options: str) -> AsyncIterator[Console]:
    """Started, and stopped as Ctrl-C does."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("ANSWERBUS_")}  # noqa: TID251
    tokens = {"OPERATOR_TOKEN": OPERATOR, "VIEWER_TOKEN": VIEWER, "COLUMNS": "200"}
    log = config.with_name("console.log")
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "services.cli", "console", "--config", str(config)),
            *("--port", "0", "--token-env", "OPERATOR_TOKEN", "--viewer-token-env", "VIEWER_TOKEN"),
            *options,
            cwd=ROOT,
            env={**clean, **tokens},
            stdout=file,
            stderr=file,
        )
    try:
        async with asyncio.timeout(START_S):
            while "The console is at " not in log.read_text():
                assert process.returncode is None, log.read_text()
                await asyncio.sleep(0.05)
        yield Console(log.read_text().partition("The console is at ")[2].split()[0], log)
    finally:
        if process.returncode is None:
            process.terminate()
        async with asyncio.timeout(STOP_S):
            assert await process.wait() == 0, log.read_text()
