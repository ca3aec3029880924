"""The command `answerbus worker`."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from services.settings import from_environment
from services.telemetry import Level, start_logging
from services.worker.main import run


def worker(
    config: Annotated[Path | None, typer.Option("--config", help="The settings file.")] = None,
    log_level: Annotated[Level, typer.Option(help="How much to log, as JSON lines.")] = "info",
) -> None:
    """Answer requests until SIGTERM, then finish the calls in flight and leave."""
    settings = from_environment(config)
    start_logging(log_level)
    asyncio.run(run(settings))
