"""What all commands share: their common options, where they print, and how they reach Kafka."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from answerbus.client.bus import Bus
from services.kafka import OPTION_NAMES, client_options
from services.settings import KafkaSettings

Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="PATH", help="Settings file. Default: answerbus.toml."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def stdout() -> Console:
    """Where data go."""
    return Console(highlight=False, soft_wrap=True)


def stderr() -> Console:
    """Where everything that is no data goes."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def bus_of(settings: KafkaSettings) -> Bus:
    """The bus that the settings name. Raises SetUpError."""
    options = client_options(settings)
    return Bus(options.pop("bootstrap_servers"), settings.topic_prefix, options, OPTION_NAMES)
