"""`answerbus shadow`: other profiles asked live what is answered, without an outcome."""

import asyncio
from typing import Annotated

import typer

from services.command_line import Config
from services.commands.shadowing import run
from services.settings.secrets import mask_of
from services.settings.settings import from_environment
from services.telemetry.logs import Level, start_logging

Health = Annotated[
    str | None,
    typer.Option("--health", metavar="HOST:PORT", help="Serve /live and /metrics there."),
]


def shadow(
    health: Health = None,
    config: Config = None,
    log_level: Annotated[Level, typer.Option(help="How much to log, as JSON lines.")] = "info",
) -> None:
    """Ask other profiles the same, live, as `shadow` of profiles says. Ctrl-C ends it.

    Workers know nothing of it. Answers go to the topic of comparisons alone.
    """
    settings = from_environment(config)
    start_logging(log_level, mask_of(settings))
    asyncio.run(run(settings, health))
