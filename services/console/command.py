"""The command `answerbus console`."""

import asyncio
import logging
from typing import Annotated, Any

import typer

from services.command_line import Config, Workers, stderr
from services.console.main import run
from services.settings.secrets import mask_of
from services.settings.settings import from_environment
from services.telemetry.logs import Level, start_logging


def console(
    host: Annotated[
        str | None, typer.Option(help="Where to listen. Default: this machine.")
    ] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65_535, help="0: any free one.")] = None,
    token_env: Annotated[
        str | None, typer.Option(help="The variable that holds the operators' token.")
    ] = None,
    viewer_token_env: Annotated[
        str | None, typer.Option(help="The variable that holds the viewers' token.")
    ] = None,
    worker: Workers = None,
    config: Config = None,
    log_level: Annotated[Level, typer.Option(help="How much to log, as JSON lines.")] = "info",
) -> None:
    """Serve pages for operators: what goes on, dead letters, replays. Ctrl-C ends it."""
    given: dict[str, Any] = {
        "host": host,
        "port": port,
        "operator_token_env": token_env,
        "viewer_token_env": viewer_token_env,
        "workers": tuple(worker) if worker else None,
    }
    settings = from_environment(config)
    changes = {name: value for name, value in given.items() if value is not None}
    chosen = settings.console.model_copy(update=changes)
    settings = settings.model_copy(update={"console": chosen})
    start_logging(log_level, mask_of(settings))
    # What goes wrong with Kafka is said once and in our words, here and on the pages.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    asyncio.run(run(settings, lambda message: stderr().print(message, markup=False)))
