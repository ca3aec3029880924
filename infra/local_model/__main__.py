"""The command `python -m infra.local_model`: fetch a model's file, or serve it."""

import signal
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from infra.local_model.fetch import fetch as fetch_file
from infra.local_model.models import MODELS
from infra.local_model.report import TerminalReport
from infra.local_model.serving import require_runtime
from infra.local_model.serving import serve as serve_file
from infra.ports import LOOPBACK, PortTakenError
from infra.setup_error import SetupError


class ModelName(StrEnum):
    """The models by the name that they have on the command line."""

    SMALL = "small"
    TINY = "tiny"


app = typer.Typer(
    help="A small real instruct model as an OpenAI-compatible server on this machine.",
    no_args_is_help=True,
    add_completion=False,
)
Model = Annotated[ModelName, typer.Option("--model", help="tiny is for smoke tests alone.")]
Port = Annotated[int, typer.Option("--port", min=0, max=65_535, help="0 takes a free one.")]
Host = Annotated[str, typer.Option("--host", help="Address to listen on; 0.0.0.0 is all.")]
console = Console(stderr=True, highlight=False, soft_wrap=True)


@app.command()
def fetch(model: Model = ModelName.SMALL) -> None:
    """Make sure that the model's file is here, and print its path."""
    print(_fetched(model))


@app.command()
def serve(model: Model = ModelName.SMALL, port: Port = 8081, host: Host = LOOPBACK) -> None:
    """Fetch the model if need be and serve it until SIGTERM or Ctrl-C."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    try:
        require_runtime()
        serve_file(_fetched(model), host, port)
    except SetupError as error:
        _fail(error)


def _fetched(model: ModelName) -> Path:
    try:
        with TerminalReport(console) as report:
            return fetch_file(MODELS[model], report)
    except SetupError as error:
        _fail(error)


def _fail(error: SetupError) -> NoReturn:
    message = error.with_option("`--port 0`") if isinstance(error, PortTakenError) else str(error)
    console.print(message, style="red", markup=False)
    raise typer.Exit(1)


if __name__ == "__main__":
    app()
