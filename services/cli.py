"""The command `answerbus`: each service and each group of commands brings its own part."""

import logging
import sys
from collections.abc import Callable
from typing import Any

import typer
from aiokafka.errors import KafkaError
from typer.core import TyperGroup

from answerbus.client.errors import BusUnavailable
from services.command_line import stderr
from services.commands import audit as verify_command
from services.commands import contracts, lanes, topics
from services.commands.ask import ask
from services.commands.profiles import profiles
from services.commands.watch import watch
from services.commands.workflow import workflow
from services.replay.command import app as replay
from services.settings import SetUpError

EXIT_SET_UP = 3
_LATE = ("worker", "console", "doctor")


class _Commands(TyperGroup):
    """Loads some commands only when asked for: their libraries take longer than most commands.

    What typer is made of has no public types any more, hence the `Any`.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        return [*_LATE, *super().list_commands(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in _LATE:
            return super().get_command(ctx, cmd_name)
        alone = typer.Typer(add_completion=False)
        alone.command()(_late(cmd_name))
        return typer.main.get_command(alone)


def _late(name: str) -> Callable[..., None]:
    match name:
        case "worker":
            from services.worker.command import worker  # noqa: PLC0415 - see above

            return worker
        case "console":
            from services.console.command import console  # noqa: PLC0415

            return console
        case _:
            from services.doctor.command import doctor  # noqa: PLC0415 - see above

            return doctor


def application() -> typer.Typer:
    """All commands."""
    app = typer.Typer(
        name="answerbus",
        cls=_Commands,
        help="Typed answers from language models, over Kafka.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    app.command()(ask)
    app.command()(watch)
    app.command()(workflow)
    app.command()(profiles)
    app.add_typer(verify_command.app, name="audit")
    app.add_typer(replay, name="replay")
    app.add_typer(topics.app, name="topics")
    app.add_typer(lanes.app, name="lanes")
    app.add_typer(contracts.app, name="contracts")
    return app


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a line says something new: aiokafka drops futures whose error it has raised too."""
    error = record.exc_info[1] if record.exc_info else None
    return not (isinstance(error, KafkaError) and record.getMessage().startswith("Future"))


def main() -> None:
    """Run the command line.

    Exit codes: 0 done, 1 what was asked about failed, 2 usage, 3 Kafka or set-up, 130 Ctrl-C.
    """
    # What goes wrong with Kafka is said once and in our words; the worker sets up logs of its own.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    logging.getLogger("asyncio").addFilter(_is_news)
    try:
        application()()
    except (SetUpError, BusUnavailable) as error:
        stderr().print(str(error), style="red", markup=False)
        sys.exit(EXIT_SET_UP)


if __name__ == "__main__":
    main()
