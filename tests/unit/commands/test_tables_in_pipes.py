"""Tables of commands: a name is whole in a pipe, and fits into a terminal."""

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table
from typer.testing import CliRunner

from answerbus.topics import TOPICS
from services import cli
from services.command_line import NAME_COLUMNS, print_table

NAME = "a-name-that-does-not-fit-into-a-third-of-eighty-columns.dead-letter@workflow-1"


@pytest.mark.parametrize(("is_terminal", "is_whole"), [(False, True), (True, False)])
def test_a_name_is_folded_only_in_a_terminal(*, is_terminal: bool, is_whole: bool) -> None:
    written = StringIO()
    table = Table()
    for name in ("first", "second", "third"):
        table.add_column(name, overflow="fold")
    table.add_row(NAME, NAME, NAME)

    print_table(Console(file=written, width=80, force_terminal=is_terminal), table)

    assert (written.getvalue().count(NAME) == 3) is is_whole


def test_no_part_of_a_name_is_left_out_in_a_terminal() -> None:
    written = StringIO()
    table = Table("profile", "model", "settings")
    table.add_row("default", NAME, "scope group\ncheck_model True")

    print_table(Console(file=written, width=60, force_terminal=True), table)

    assert "…" not in written.getvalue()
    shown = "".join(line.split("│")[2].strip() for line in written.getvalue().splitlines()[3:-1])
    assert shown == NAME


def test_names_and_numbers_are_whole_in_a_terminal_that_has_no_room_for_them() -> None:
    written = StringIO()
    table = Table("label", box=None, pad_edge=False)
    for name in ("used", "charged"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_row(NAME, "≥ $123,456.78", "≥ $123,456.78")

    print_table(Console(file=written, width=20, force_terminal=True), table)

    lines = written.getvalue().splitlines()[1:]
    assert lines[0].count("≥ $123,456.78") == 2
    assert "".join(line[:NAME_COLUMNS].strip() for line in lines) == NAME


@pytest.mark.parametrize(
    ("width", "gap", "is_terminal"), [(40, "  ", True), (28, " ", True), (28, "  ", False)]
)
def test_columns_are_closer_where_the_terminal_is_too_narrow(
    width: int, gap: str, *, is_terminal: bool
) -> None:
    written = StringIO()
    table = Table("label", box=None, pad_edge=False)
    for name in ("used", "charged"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_row("a-label", "$1,234.56", "$2,345.67")

    print_table(Console(file=written, width=width, force_terminal=is_terminal), table)

    assert written.getvalue().splitlines()[1] == gap.join(("a-label", "$1,234.56", "$2,345.67"))


def test_a_table_of_spend_by_two_keys_fits_into_sixty_columns() -> None:
    written = StringIO()
    table = Table("contract", "label.tenant", box=None, pad_edge=False)
    for name in ("used", "charged", "calls", "aborted", "unknown", "tokens"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_row("plan_proposal.v1", NAME, "$0.000123", "$0.000123", "1", "0", "0", "1.2k")

    screen = Console(file=written, width=60, force_terminal=True, color_system=None)
    print_table(screen, table)

    assert max(map(len, written.getvalue().splitlines())) <= 60


def test_the_names_of_topics_are_whole_in_a_pipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix, file = f"{'company.' * 8}team", tmp_path / "answerbus.toml"
    file.write_text(f'[kafka]\ntopic_prefix = "{prefix}"\n')
    monkeypatch.setenv("COLUMNS", "80")

    done = CliRunner().invoke(cli.application(), ["topics", "list", "--config", str(file)])

    assert done.exit_code == 0, done.output
    assert all(topic.full_name(prefix) in done.stdout for topic in TOPICS)
