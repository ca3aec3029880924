"""The rows of a file for `answerbus ask-many` are what is in the file."""

from pathlib import Path

import pytest
import typer

from services.commands.ask_many import _rows


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
