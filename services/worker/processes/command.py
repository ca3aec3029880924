"""The command `answerbus worker`."""

import asyncio
import signal
import sys
from typing import Annotated

import typer

from services.command_line import Config
from services.settings.secrets import mask_of
from services.settings.settings import SettingsFile, from_environment
from services.telemetry.logs import Level, start_logging
from services.worker.main import run
from services.worker.processes.supervisor import Processes

PROCESSES_MAX = 64


def worker(
    config: Config = None,
    log_level: Annotated[Level, typer.Option(help="How much to log, as JSON lines.")] = "info",
    processes: Annotated[
        int,
        typer.Option(
            min=1,
            max=PROCESSES_MAX,
            help="Worker processes that share the limits of the settings, one core each.",
        ),
    ] = 1,
) -> None:
    """Answer requests until SIGTERM, then finish the calls in flight and leave."""
    # It ends no worker that cannot handle it yet: the file is looked at soon after the start.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    settings, file = from_environment(config), SettingsFile(config)
    mask = mask_of(settings)
    start_logging(log_level, mask)
    if processes == 1:
        asyncio.run(run(settings, file, mask))
        return
    sys.exit(Processes(settings, file, log_level, processes).run())
