"""The rows of a file for `answerbus ask-many` are what is in the file."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from answerbus.client import JobProgress
from answerbus.client.client import Client
from answerbus.client.testing import FakeClient, answered
from services import cli
from services.commands.ask_many import _asked, _check_out, _progress_shown, _rows


def test_progress_is_drawn_in_place_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with _progress_shown() as show:
        for number in range(4):
            show(JobProgress(rows=3, answered=number))
    shown = capsys.readouterr().err

    assert "\\u000d" not in shown
    assert "\r" in shown
    assert "[####################] 3 of 3: 3 answered; " in shown


def test_progress_is_one_line_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    with _progress_shown() as show:
        for number in range(4):
            show(JobProgress(rows=3, answered=number))

    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("[####################] 3 of 3: 3 answered; ")


def test_a_quoted_cell_keeps_its_lines(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_bytes(b'a,b\r\n"one\ntwo",3\r\n')

    assert _rows(file) == [{"a": "one\ntwo", "b": "3"}]


def test_only_a_newline_ends_a_row_of_json(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"a": "one\u2028two"}\r\n\n{"a": "b"}\n', encoding="utf-8", newline="")

    assert _rows(file) == [{"a": "one\u2028two"}, {"a": "b"}]


def test_a_row_with_too_many_cells_is_named(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("a\n1\n1,2\n")

    with pytest.raises(typer.BadParameter, match="line 3 has more cells"):
        _rows(file)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("rows.csv", b"a,b\n1\n", "line 2 has fewer cells"),
        ("rows.csv", b"id,id\n1,2\n", "the header has 'id' twice"),
        ("rows.csv", b",".join([b"a"] * 100_000), "more than 1,000 columns"),
        ("rows.csv", b"a,b\n", "has no rows"),
        ("rows.csv", b",b\n1,2\n", "a column without a name"),
        ("rows.csv", b'a\n"1\n2\n3\n', "line 2 is not CSV: unexpected end of data"),
        ("rows.csv", b"a\n" + b"x" * 600_000, "line 2 is not CSV: field larger"),
        ("rows.jsonl", b"\n", "has no rows"),
        ("rows.csv", "gr\u00f6\u00dfe\n1\n".encode("latin-1"), r"not text in UTF-8 \(byte 2\)"),
        ("rows.csv", "a\n1\n".encode("utf-16"), r"not text in UTF-8 \(byte 0\)"),
    ],
)
def test_a_file_that_would_be_asked_wrongly_is_refused(
    name: str, content: bytes, expected: str, tmp_path: Path
) -> None:
    file = tmp_path / name
    file.write_bytes(content)

    with pytest.raises(typer.BadParameter, match=expected):
        _rows(file)


def test_a_long_cell_is_a_cell(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_bytes(b"a\n" + b"x" * 200_000)

    assert _rows(file) == [{"a": "x" * 200_000}]


def test_outcomes_do_not_go_to_a_folder_or_over_the_rows(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("a\n1\n")

    with pytest.raises(typer.BadParameter, match="is the file with the rows"):
        _check_out(tmp_path / "rows.csv", file)
    with pytest.raises(typer.BadParameter, match="is a folder"):
        _check_out(tmp_path, file)


def test_outcomes_go_to_where_a_link_leads_and_nothing_is_left_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rows.csv").write_text("a\n1\n")
    out, target = tmp_path / "out.jsonl", tmp_path / "elsewhere.jsonl"
    out.symlink_to(target)

    @asynccontextmanager
    async def connected(*_: object) -> AsyncIterator[FakeClient]:
        fake = FakeClient()
        fake.prepare_by(lambda _: answered("web"))
        yield fake

    monkeypatch.setattr("services.commands.ask_many.client_of", connected)
    command = ["ask-many", str(tmp_path / "rows.csv"), "Ask.", "--out", str(out)]
    done = CliRunner().invoke(cli.application(), command)

    assert done.exit_code == 0, done.output
    assert out.is_symlink()
    assert json.loads(target.read_text())["answer"] == "web"
    assert {path.name for path in tmp_path.iterdir()} == {"rows.csv", out.name, target.name}


@pytest.mark.parametrize(
    ("row", "instructions", "expected"),
    [({"": "1"}, "Ask.", "Fact/name: String"), ({"a": "1"}, "", "Context/instructions: String")],
)
def test_what_no_request_can_say_is_wrong_usage(
    row: dict[str, str], instructions: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    @asynccontextmanager
    async def not_connected(*_: object) -> AsyncIterator[Client]:
        yield Client("localhost:1")

    monkeypatch.setattr("services.commands.ask_many.client_of", not_connected)

    with pytest.raises(typer.BadParameter, match=expected):
        asyncio.run(_asked([{**row}], instructions, "job", str, 1, {}, None))
