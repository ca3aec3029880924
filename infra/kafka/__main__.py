"""The command `python -m infra.kafka`: start, stop or look at the broker of this checkout."""

import signal
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from infra.kafka.broker import Broker, find_broker, start_broker
from infra.kafka.java import KAFKA_VERSION
from infra.ports import PortTakenError
from infra.server_process import last_lines
from infra.setup_error import SetupError

DATA = Path(".run/kafka")

app = typer.Typer(
    help="A real one-node Kafka, without Docker and without Java.",
    no_args_is_help=True,
    add_completion=False,
)
Data = Annotated[Path, typer.Option("--data", help="Folder of its data, log and state.")]
Port = Annotated[int, typer.Option("--port", min=0, max=65_535, help="0 takes a free one.")]
Foreground = Annotated[bool, typer.Option("--foreground", help="Stay; Ctrl-C stops it.")]
console = Console(highlight=False, soft_wrap=True)


@app.command()
def start(*, port: Port = 9092, data: Data = DATA, foreground: Foreground = False) -> None:
    """Start a broker and return once it answers; it is not an error if it runs already."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # no half-started broker stays
    running = None if foreground else find_broker(data)
    if running is not None and port in (0, running.port):
        console.print(f"Kafka already runs at {_place(running)}")
        return
    began = time.monotonic()
    try:
        with console.status("Starting") as spinner:
            say = spinner.update if console.is_terminal else console.print
            broker = start_broker(data, port, say=say)
    except SetupError as error:
        message = (
            error.with_option("`--port 0`") if isinstance(error, PortTakenError) else f"{error}"
        )
        console.print(message, style="red", markup=False)
        raise typer.Exit(1) from None
    took_s = time.monotonic() - began
    console.print(f"Kafka {KAFKA_VERSION} is ready at {_place(broker)} after {took_s:.1f} s")
    if foreground:
        _stay(broker)


@app.command()
def stop(data: Data = DATA) -> None:
    """Stop the broker; the data stay."""
    broker = find_broker(data)
    if broker is None:
        console.print(f"No Kafka runs on {data}")
        return
    with console.status("Stopping Kafka"):
        broker.stop()
    console.print(f"Kafka at {broker.bootstrap_servers} has stopped; its data stay in {data}")


@app.command()
def status(data: Data = DATA) -> None:
    """Say whether the broker runs; exit code 1 if it does not, or does not answer."""
    broker = find_broker(data)
    if broker is None:
        console.print(f"No Kafka runs on {data}")
        raise typer.Exit(1)
    if not broker.answers():
        console.print(f"Kafka runs but does not answer at {_place(broker)}; see its log")
        raise typer.Exit(1)
    console.print(f"Kafka {KAFKA_VERSION} answers at {_place(broker)}")


def _place(broker: Broker) -> str:
    return f"{broker.bootstrap_servers} (pid {broker.pid}, data {broker.data})"


def _stay(broker: Broker) -> None:
    try:
        while not broker.process.gone_within(60.0):
            pass
    except KeyboardInterrupt:
        console.print("Stopping Kafka")
        broker.stop()
        return
    console.print(f"Kafka ended by itself; the end of its log:\n{last_lines(broker.process.log)}")
    raise typer.Exit(1)


if __name__ == "__main__":
    app()
