"""The command `answerbus ask-many`: one question about each row of a file."""

import asyncio
import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any

import typer
from pydantic import JsonValue, ValidationError
from rich.live import Live
from rich.text import Text

from answerbus import json_text
from answerbus.budget import Budget
from answerbus.client import JobOutcomes, JobProgress
from answerbus.client.ask_options import JobOptions
from answerbus.client.job import CONCURRENCY_DEFAULT, CONCURRENCY_MAX
from answerbus.limits import FACTS_MAX, REQUEST_BYTES_MAX
from answerbus.outcome import Result
from answerbus.problems import pointer
from services.command_line import (
    EXIT_CTRL_C,
    Config,
    client_of,
    content_of,
    screen,
    stderr,
    writing_file,
)
from services.operators.adapters.whole_file import is_elsewhere, write_whole
from services.operators.records.money import micro_usd_of
from services.settings import plugins
from services.settings.settings import from_environment
from services.text.escaping import plain

Row = Mapping[str, JsonValue]

File = Annotated[Path, typer.Argument(metavar="FILE", help="JSON Lines, or CSV with a header.")]
Instructions = Annotated[str, typer.Argument(help="The instructions for each row.")]
Out = Annotated[
    Path, typer.Option("--out", metavar="FILE", help="Where the outcomes go, as JSON Lines.")
]
SchemaFile = Annotated[
    Path | None,
    typer.Option("--schema", metavar="FILE", help="A JSON Schema.", show_default="a text"),
]
JobId = Annotated[
    str | None,
    typer.Option("--job", metavar="ID", help="The name of the job.", show_default="the file's"),
]
ProfileName = Annotated[str, typer.Option("--profile", metavar="NAME", help="The profile to ask.")]
Attempts = Annotated[
    int | None,
    typer.Option(
        min=1, help="The budget of the job in attempts.", show_default="three for each row"
    ),
]
Money = Annotated[
    str | None, typer.Option(metavar="USD", help="The budget of the job in US dollars, as 5.00.")
]
Concurrency = Annotated[
    int, typer.Option(min=1, max=CONCURRENCY_MAX, help="How many requests are open at once.")
]


def ask_many(
    file: File,
    instructions: Instructions,
    *,
    out: Out,
    schema: SchemaFile = None,
    job: JobId = None,
    profile: ProfileName = "default",
    attempts: Attempts = None,
    money: Money = None,
    concurrency: Concurrency = CONCURRENCY_DEFAULT,
    config: Config = None,
) -> None:
    """Ask the same of each row of a file; exit code 0 if each has a result."""
    rows = _rows(file)
    options: JobOptions = {"profile": profile}
    if (budget := _budget(attempts, money)) is not None:
        options["budget"] = budget
    shape = _schema(schema)
    _check_out(out, file)
    job_id = job or file.stem
    try:
        outcomes = asyncio.run(
            _asked(rows, instructions, job_id, shape, concurrency, options, config)
        )
    except KeyboardInterrupt:
        stderr().print(
            f"\nNot waiting any more. Requests on their way go on and cost; run it again as "
            f"--job {plain(job_id)} to go on.",
            markup=False,
        )
        raise typer.Exit(EXIT_CTRL_C) from None
    write_whole(out, (_line(one.number, one.outcome) for one in outcomes))
    if outcomes.progress.answered < len(rows):
        raise typer.Exit(1)


async def _asked(
    rows: list[Row],
    instructions: str,
    job_id: str,
    shape: Any,
    concurrency: int,
    options: JobOptions,
    config: Path | None,
) -> JobOutcomes[Any]:
    async with client_of(from_environment(config).kafka, plugins.registry()) as client:
        try:
            with _progress_shown() as show:
                return await client.ask_many(
                    rows,
                    instructions,
                    job_id=job_id,
                    response_model=shape,
                    concurrency=concurrency,
                    on_progress=show,
                    **options,
                )
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            what = f"{error.title}{pointer(first['loc'])}: {first['msg']}"
            raise typer.BadParameter(f"invalid request: {plain(what)}") from None
        except ValueError as error:
            raise typer.BadParameter(plain(str(error))) from None


@contextmanager
def _progress_shown() -> Iterator[Callable[[JobProgress[Any]], None]]:
    """In place on a terminal; elsewhere once, when all rows are done."""
    console = screen(is_data=False)
    if console.is_terminal:
        with Live("", console=console) as live:
            yield lambda progress: live.update(Text(str(progress)))
        return

    def show(progress: JobProgress[Any]) -> None:
        if progress.done == progress.rows:
            stderr().print(str(progress), markup=False)

    yield show


def _check_out(out: Path, rows: Path) -> None:
    """Find what is wrong with the file of the outcomes before the job is paid for."""
    if out.is_dir():
        raise typer.BadParameter(f"{out} is a folder: --out takes a file")
    if out.exists() and out.samefile(rows):
        raise typer.BadParameter(f"{out} is the file with the rows: give another --out")
    with writing_file(out):
        if not is_elsewhere(out):
            TemporaryFile(dir=out.parent).close()
        elif not out.exists() or out.is_file():  # to open a pipe may wait for its reader
            out.open("ab").close()


def _line(number: int, outcome: Any) -> bytes:
    found = {"row": number, "outcome": outcome.kind, "request_id": outcome.request_id}
    more = {"answer": outcome.answer} if isinstance(outcome, Result) else {"why": str(outcome)}
    return json.dumps({**found, **more}, ensure_ascii=False).encode() + b"\n"


def _schema(file: Path | None) -> Any:
    if file is None:
        return str
    from services.commands.ask_request import inline_schema  # noqa: PLC0415 - loads slowly

    return inline_schema(str(file), content_of(file), wrapped=False)


def _budget(attempts: int | None, money: str | None) -> Budget | None:
    micro_usd = None if money is None else micro_usd_of(money)
    if money is not None and micro_usd is None:
        raise typer.BadParameter(f"--money takes US dollars such as 0.25, not {money!r}.")
    if attempts is None and micro_usd is None:
        return None
    named = {} if attempts is None else {"attempts": attempts}
    return Budget(**named, micro_usd=micro_usd)


def _rows(file: Path) -> list[Row]:
    try:
        text = content_of(file).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise typer.BadParameter(
            f"{file} is not text in UTF-8 (byte {error.start}): save it as that"
        ) from None
    if file.suffix == ".csv":
        rows = _csv_rows(text)
    else:
        lines = enumerate(text.split("\n"), 1)
        rows = [_row(number, line) for number, line in lines if line.strip()]
    if not rows:
        raise typer.BadParameter(f"{file} has no rows")
    return rows


def _csv_rows(text: str) -> list[Row]:
    csv.field_size_limit(REQUEST_BYTES_MAX)
    lines = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        return _checked_rows(lines)
    except csv.Error as error:
        raise typer.BadParameter(f"line {lines.line_num + 1} is not CSV: {error}") from None


def _checked_rows(lines: "csv.DictReader[str]") -> list[Row]:
    header = lines.fieldnames or ()
    if len(header) > FACTS_MAX:
        raise typer.BadParameter(f"the header has more than {FACTS_MAX:,} columns")
    if twice := [name for name in header if header.count(name) > 1]:
        raise typer.BadParameter(f"the header has {twice[0]!r} twice")
    if "" in header:
        raise typer.BadParameter("the header has a column without a name")
    rows: list[Row] = []
    for row in lines:
        if None in row or None in row.values():
            wrong = "more" if None in row else "fewer"
            raise typer.BadParameter(f"line {lines.line_num} has {wrong} cells than the header")
        rows.append(dict(row))
    return rows


def _row(number: int, line: str) -> Row:
    raw = line.encode()
    if len(raw) > REQUEST_BYTES_MAX:
        raise typer.BadParameter(f"line {number} has more than {REQUEST_BYTES_MAX:,} bytes")
    parsed = json_text.parse(raw)
    if not (isinstance(parsed, json_text.Parsed) and isinstance(parsed.value, dict)):
        raise typer.BadParameter(f"line {number} is not a JSON object")
    if len(parsed.value) > FACTS_MAX:
        raise typer.BadParameter(f"line {number} has more than {FACTS_MAX:,} members")
    return parsed.value
