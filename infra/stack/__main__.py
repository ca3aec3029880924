"""The command `python -m infra.stack`: the whole stack in the background, up, down, status."""

import os
import signal
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from infra.local_model.report import TerminalReport
from infra.ports import LOOPBACK, PortTakenError
from infra.server_process import ServerProcess
from infra.setup_error import SetupError
from infra.stack.place import Place
from infra.stack.stack import Stack, find_stack, start_stack

FOLDER = Path(".run")
KAFKA_PORT, MODEL_PORT = 9092, 8081
FIRST_REQUEST = "Two coffees and a muffin to go, please."
FIRST_RUN = "Use the echo tool to echo the phrase Hello."
FIRST_SCHEMA = Path("infra/demo/order.json")

app = typer.Typer(
    help="Broker, model, tool server and two workers on this machine, kept running.",
    no_args_is_help=True,
    add_completion=False,
)
KafkaPort = Annotated[int, typer.Option(min=0, max=65_535, help="0 takes a free one.")]
ModelPort = Annotated[int, typer.Option(min=0, max=65_535, help="0 takes a free one.")]
console = Console(highlight=False, soft_wrap=True)


@app.command()
def up(*, kafka_port: KafkaPort = KAFKA_PORT, model_port: ModelPort = MODEL_PORT) -> None:
    """Start what does not run yet; say what runs where, and how to use it."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # nothing half-started stays
    place = Place(FOLDER, kafka_port, model_port)
    try:
        with TerminalReport(Console(stderr=True, highlight=False)) as report:
            stack = start_stack(place, report.say, report)
    except SetupError as error:
        console.print(_advice(error, kafka_port), style="red", markup=False)
        raise typer.Exit(1) from None
    _show(stack)
    console.print(
        "\nGo on with (after `source .venv/bin/activate`):\n"
        f"  answerbus ask {FIRST_REQUEST!r} --schema {FIRST_SCHEMA} --bare\n"
        f"  answerbus ask {FIRST_RUN!r} --agent helper --follow\n"
        "  answerbus watch\n"
        "  make console\n"
        f"  make up             # again, after a change of {FOLDER}/answerbus.toml\n"
        "  make down"
    )


@app.command()
def down() -> None:
    """Stop what runs; the data stay. It is not an error if nothing does."""
    stack = find_stack(Place(FOLDER))
    if not (stack.broker or stack.model or stack.tools or stack.workers):
        console.print(f"Nothing of {FOLDER} runs")
        return
    with console.status("Stopping"):
        try:
            stack.stop()
        except SetupError as error:
            console.print(str(error), style="red", markup=False)
            raise typer.Exit(1) from None
    console.print(f"Stopped; the broker's data stay in {stack.place.kafka}")


@app.command()
def status() -> None:
    """Say what runs where; exit code 1 if something does not."""
    stack = find_stack(Place(FOLDER))
    _show(stack)
    servers = stack.broker and stack.model and stack.tools
    if not (servers and len(stack.workers) == stack.place.workers):
        raise typer.Exit(1)


def _advice(error: SetupError, kafka_port: int) -> str:
    if not isinstance(error, PortTakenError):
        return str(error)
    which = "KAFKA_PORT" if error.port == kafka_port else "MODEL_PORT"
    return error.with_option(f"`make up {which}=0`")


def _show(stack: Stack) -> None:
    broker, model = stack.broker, stack.model
    if broker:
        _say("Kafka", broker.bootstrap_servers, broker.process)
    if model:
        _say("model", stack.model_url, model.process)
    if stack.tools:
        _say("tools", "toolset echo", stack.tools.process)
    for worker in stack.workers:
        _say(worker.name, f"http://{LOOPBACK}:{worker.port}/ready", worker.process)


def _say(name: str, where: str, process: ServerProcess) -> None:
    log = os.path.relpath(process.log)
    console.print(f"{name:9} {where:30} process {process.pid}, log {log}", markup=False)


if __name__ == "__main__":
    app()
