"""The command `answerbus`: the table of its commands, each loaded when it is run."""

import errno
import gc
import logging
import os
import platform
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.metadata import version
from io import TextIOWrapper
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from services.text.escaping import plain

EXIT_SET_UP = 3
EXIT_CTRL_C = 130  # as shells have it
EXIT_SIGTERM = 143
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
DISTRIBUTIONS = ("answerbus-services", "answerbus")


class _Part(NamedTuple):
    """A command, or a group of them: where it is, and its first line of help."""

    module: str
    name: str
    help: str


_PARTS = {
    "worker": _Part(
        "services.worker.processes.command",
        "worker",
        "Answer requests until SIGTERM, then finish the calls in flight and leave.",
    ),
    "console": _Part(
        "services.console.command",
        "console",
        "Serve pages for operators: what goes on, dead letters, replays. Ctrl-C ends it.",
    ),
    "top": _Part(
        "services.commands.top",
        "top",
        "Show what goes on, live; with --json, or where no terminal is, once. Ctrl-C ends it.",
    ),
    "doctor": _Part(
        "services.commands.doctor.command",
        "doctor",
        "Check libraries, settings, broker, topics, clocks, workers and profiles.",
    ),
    "ask": _Part(
        "services.commands.ask",
        "ask",
        "Ask one thing; exit code 0 if there is a result, 1 for any other outcome or none in time.",
    ),
    "ask-many": _Part(
        "services.commands.ask_many",
        "ask_many",
        "Ask the same of each row of a file; exit code 0 if each has a result.",
    ),
    "chat": _Part(
        "services.commands.chat",
        "chat",
        "Talk to an agent, a line a turn, until Ctrl-D. Exit code 1: a turn had no answer.",
    ),
    "approvals": _Part(
        "services.commands.approvals",
        "app",
        "List, approve and deny tool calls, and answer questions of runs.",
    ),
    "cancel": _Part(
        "services.commands.cancel",
        "cancel",
        "End an open request, or all of a workflow. Exit code 1: nothing was open.",
    ),
    "watch": _Part(
        "services.commands.watch",
        "watch",
        "Show results, refusals, retries and dead letters as they come. Ctrl-C ends it.",
    ),
    "workflow": _Part(
        "services.commands.workflow",
        "workflow",
        "Show everything that happened to a workflow, in one order. Exit code 1: nothing is kept.",
    ),
    "find": _Part(
        "services.commands.find",
        "find",
        "Find requests by the text of their prompt, the newest first. Exit code 1: there is none.",
    ),
    "profiles": _Part(
        "services.commands.profiles",
        "profiles",
        "Show the profiles of the settings; keys and passwords are not shown.",
    ),
    "providers": _Part(
        "services.commands.providers.command",
        "app",
        "List and check providers, also those of plug-ins.",
    ),
    "spend": _Part(
        "services.commands.spend",
        "spend",
        "Show what calls used and what accounts were charged, the most expensive first.",
    ),
    "record": _Part(
        "services.commands.record",
        "record",
        "Record a workflow, or a dead letter as a test, to be played again without Kafka.",
    ),
    "play": _Part(
        "services.commands.play",
        "play",
        "Play recorded workflows with today's agents and contracts. Exit code 1: one differs.",
    ),
    "compare": _Part(
        "services.commands.compare",
        "compare",
        "Ask another profile what was asked before, and compare; exit code 1 if a bar is missed.",
    ),
    "shadow": _Part(
        "services.commands.shadow",
        "shadow",
        "Ask other profiles the same, live, as `shadow` of profiles says. Ctrl-C ends it.",
    ),
    "audit": _Part("services.commands.audit", "app", "Verify what the topics say was spent."),
    "evidence": _Part(
        "services.commands.evidence", "app", "Export and check signed packs for auditors."
    ),
    "replay": _Part(
        "services.commands.replay.command",
        "app",
        "Look at dead letters, send them again, put them aside.",
    ),
    "topics": _Part("services.commands.topics", "app", "Create, change and list the topics."),
    "lanes": _Part(
        "services.commands.lanes", "app", "Show lanes, and what keeps one of them shut."
    ),
    "tools": _Part(
        "services.tools.command",
        "app",
        "Serve, list, call and check tools, also those of MCP servers.",
    ),
    "contracts": _Part(
        "services.commands.contracts", "app", "List, show and export the contracts of the bus."
    ),
}


class _Commands(TyperGroup):
    """Loads a command when it is run: the libraries of all of them take seconds.

    typer has no public types of what it is made of, hence the `Any`.
    """

    _lists = False

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)
        self.commands = {  # for listing them, and for suggestions
            name: TyperCommand(name, help=part.help) for name, part in _PARTS.items()
        }

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - see TyperGroup
        return list(_PARTS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - see TyperGroup
        """The command itself; where commands are only listed, a name with its help."""
        if cmd_name not in _PARTS:
            return None
        return self.commands[cmd_name] if self._lists else loaded(cmd_name)

    def invoke(self, ctx: Any) -> Any:
        """Errors about a file may quote it: control characters are escaped."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = plain(error.message)
            raise

    def format_help(self, ctx: Any, formatter: Any) -> None:
        with self._listing():
            super().format_help(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        with self._listing():
            return super().shell_complete(ctx, incomplete)

    @contextmanager
    def _listing(self) -> Iterator[None]:
        self._lists = True
        try:
            yield
        finally:
            self._lists = False


def loaded(name: str) -> Any:
    """One of the commands, with all that it needs."""
    part = _PARTS[name]
    found = getattr(_imported(part.module), part.name)
    alone = typer.Typer(add_completion=False)
    if isinstance(found, typer.Typer):
        alone.add_typer(found, name=name)
    else:
        alone.command(name)(found)
        alone.callback()(lambda: None)  # a single command would not be a group
    group: Any = typer.main.get_group(alone)
    _prepare(group.commands[name])
    return group.commands[name]


def _imported(module: str) -> ModuleType:
    """Loads it without searches for garbage: they take a fifth of the time, and modules stay."""
    gc.disable()
    try:
        return import_module(module)
    finally:
        gc.freeze()
        gc.enable()


def _prepare(command: Any) -> None:
    """Help shows the type of a flag, `<bool>`, as if a value followed it; texts must be UTF-8."""
    for parameter in command.params:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
        parameter.callback = parameter.callback or _checked_text
    for inner in getattr(command, "commands", {}).values():
        _prepare(inner)


def _checked_text(_context: Any, _parameter: Any, value: Any) -> Any:
    """Python keeps bytes that are not UTF-8 as half surrogates, which no event may have.

    Names of files, which are paths here, may be of any bytes.
    """
    for text in value if isinstance(value, list | tuple) else (value,):
        if isinstance(text, str) and not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                raise typer.BadParameter("this is not text in UTF-8") from None
    return value


def application() -> typer.Typer:
    app = typer.Typer(
        name="answerbus",
        cls=_Commands,
        help="Typed answers from language models, over Kafka.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)
    return app


def _show_versions(asked: bool) -> None:  # noqa: FBT001 - as typer calls it
    if asked:
        names = (f"{name} {version(name)}" for name in DISTRIBUTIONS)
        typer.echo(f"{', '.join(names)}, Python {platform.python_version()}")
        raise typer.Exit


def _options(
    *,
    show_versions: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_show_versions, help="Show versions."),
    ] = False,
) -> None:
    """The options of `answerbus` itself."""


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a line says something new: aiokafka drops futures whose error it has raised too."""
    from aiokafka.errors import KafkaError  # noqa: PLC0415 - it takes long to load

    error = record.exc_info[1] if record.exc_info else None
    return not (isinstance(error, KafkaError) and record.getMessage().startswith("Future"))


def _end_by_sigterm() -> Callable[[], bool]:
    """Let SIGTERM end a command as Ctrl-C does, with its clean-up; gives whether it has come.

    The first process of a container gets no signal for which it has no handler: a worker that was
    to end while it starts would not know of it, and take up work.
    """
    came = threading.Event()

    def interrupt(_number: int, _frame: object) -> None:
        came.set()
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as shells start what ends with `&`
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    signal.signal(signal.SIGTERM, interrupt)
    return came.is_set


def _open_streams() -> None:
    """A program may be started without them, and connections must not take their places."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 - until the end


def main() -> None:
    """Run the command line.

    Exit codes: 0 done, 1 what was asked about failed, 2 usage, 3 Kafka or set-up, 130 Ctrl-C,
    143 SIGTERM.
    """
    sigterm_came = _end_by_sigterm()
    _open_streams()
    # What goes wrong with Kafka is said once and in our words; the worker sets up logs of its own.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    logging.getLogger("asyncio").addFilter(_is_news)
    # A terminal of another encoding shows `?`; what is read is checked where it is used.
    handlers = ("surrogateescape", "replace", "replace")
    for stream, errors in zip((sys.stdin, sys.stdout, sys.stderr), handlers, strict=True):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=errors)
    try:
        application()()
    except SystemExit as end:
        if end.code == EXIT_CTRL_C and sigterm_came():
            sys.exit(EXIT_SIGTERM)
        raise
    except Exception as error:
        if (text := _set_up_fault(error)) is None:
            raise
        from services.command_line import stderr  # noqa: PLC0415 - only when there is a fault

        with suppress(OSError):
            stderr().print(text, style="red", markup=False)
        sys.exit(EXIT_SET_UP)


def _set_up_fault(error: Exception) -> str | None:
    """The text for a fault of Kafka, the settings or a file; None for a bug."""
    from answerbus.client.errors import BusUnavailable  # noqa: PLC0415 - it takes long to load
    from services.settings.settings import SetUpError  # noqa: PLC0415

    if isinstance(error, SetUpError | BusUnavailable):
        return str(error)
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}."
    if isinstance(error, OSError) and error.errno in _FULL:
        return f"What this command writes cannot be kept: {error.strerror}."
    return None


if __name__ == "__main__":
    main()
