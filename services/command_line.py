"""The shared parts of all commands: common options, output, and the connection to Kafka."""

import shlex
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.highlighter import JSONHighlighter
from rich.segment import Segment
from rich.text import Text

from services.text.escaping import json_lines, plain, plain_line

if TYPE_CHECKING:
    from answerbus.client import Client
    from answerbus.client.bus import Bus
    from answerbus.registry import Registry
    from services.settings.settings import KafkaSettings

EXIT_NOT_DONE = 1
EXIT_CTRL_C = 130  # as shells have it
PIPE_COLUMNS_MAX = 10_000
NAME_COLUMNS, NAME_COLUMNS_MIN = 8, 5  # of a terminal, for a name that is folded

Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="PATH", help="Settings file. Default: answerbus.toml."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def _worker_address(url: str) -> str:
    from services.settings.console import worker_address  # noqa: PLC0415 - only where it is given

    try:
        return worker_address(url)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


Workers = Annotated[
    list[str] | None,
    typer.Option(
        "--worker",
        metavar="URL",
        parser=_worker_address,
        help="A worker's health address; may be repeated.",
    ),
]


class PlainConsole(Console):
    """Shows text from outside as text: what would command a terminal is written out.

    Nor does it read `[b]` as markup and `:key:` as a picture: ids and arguments may have both.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """See Console: what this gives is what is written."""
        for segment in super().render(renderable, options):
            is_ours = segment.control  # such as the cursor's way back to the start of a line
            yield segment if is_ours else Segment(plain(segment.text), segment.style)


def stdout() -> Console:
    return PlainConsole(soft_wrap=True)


def screen(*, is_data: bool = True) -> Console:
    """For what is drawn again and again: lines end where the terminal does, between words."""
    return PlainConsole(stderr=not is_data)


def content_of(path: Path, bytes_max: int = -1) -> bytes:
    """All of a file of text, or its beginning, without its mark. Raises typer.BadParameter."""
    try:
        with path.open("rb") as file:
            return file.read(bytes_max).removeprefix(BOM_UTF8)
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be read: {error.strerror}") from None


@contextmanager
def writing_file(path: Path) -> Iterator[None]:
    """For a file that may not be writable. Raises typer.BadParameter."""
    try:
        yield
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be written: {error.strerror}") from None


def print_table(console: Console, table: RenderableType) -> None:
    """Print a table; names are folded, never cut, and only where a terminal limits the width.

    Numbers are not wrapped. Where they and names of NAME_COLUMNS have no room, one space is between
    them; where that is not enough, names have NAME_COLUMNS_MIN if all fits then, or lines are
    longer than those of the terminal.
    """
    from rich.table import Table  # noqa: PLC0415 - not needed for --help

    columns = table.columns if isinstance(table, Table) else ()
    for column in columns:
        column.overflow = "ellipsis" if column.no_wrap else "fold"
    unlimited = console.options.update(max_width=PIPE_COLUMNS_MAX)

    def needed(name_columns: int | None) -> int:
        for column in columns:
            column.max_width = None if column.no_wrap else name_columns
        return console.measure(table, options=unlimited).maximum

    name_columns = NAME_COLUMNS if console.is_terminal else None
    is_too_wide = console.is_terminal and needed(name_columns) > console.width
    if is_too_wide and isinstance(table, Table) and table.box is None:
        table.padding = (0, 1, 0, 0)
        if needed(NAME_COLUMNS_MIN) <= console.width:
            name_columns = NAME_COLUMNS_MIN
    console.width = max(console.width, needed(name_columns))
    for column in columns:
        column.max_width = None
    console.print(table)


def stderr() -> Console:
    """Where everything that is not data goes."""
    return PlainConsole(stderr=True, soft_wrap=True)


def refuse(message: str, choices: Iterable[str] = ()) -> NoReturn:
    """Say why nothing is done, and the options to choose from. Raises typer.Exit."""
    stderr().print(plain_line(message), style="red", markup=False)
    for choice in choices:
        stderr().print(plain_line(f"  {choice}"), markup=False)
    raise typer.Exit(EXIT_NOT_DONE)


def json_shown(value: object) -> Text:
    """A value as JSON for people, in colours."""
    return JSONHighlighter()(json_lines(value))


def workflow_command(workflow_id: str) -> str:
    """The command that shows a workflow; an id may begin with a dash, as an option does."""
    dash = "-- " if workflow_id.startswith("-") else ""
    return f"answerbus workflow {dash}{shlex.quote(workflow_id)}"


def bus_of(settings: "KafkaSettings") -> "Bus":
    """The bus that the settings name. Raises SetUpError."""
    from answerbus.client.bus import Bus  # noqa: PLC0415 - Kafka's client, not needed for --help
    from services.kafka.options import connection_options, option_names, servers  # noqa: PLC0415

    return Bus(
        servers(settings),
        settings.topic_prefix,
        connection_options(settings),
        option_names(settings),
        settings.client_rack,
    )


def client_of(settings: "KafkaSettings", registry: "Registry | None" = None) -> "Client":
    """A client that knows the contracts of `registry`. Raises SetUpError."""
    from answerbus.client import Client  # noqa: PLC0415 - as above
    from answerbus.registry import Registry  # noqa: PLC0415
    from services.kafka.options import client_options, option_names  # noqa: PLC0415

    return Client(
        **client_options(settings),
        topic_prefix=settings.topic_prefix,
        client_rack=settings.client_rack,
        registry=Registry() if registry is None else registry,
        option_names=option_names(settings),
    )
