"""A small HTML table for notebooks; every text in it is escaped, and so is what cannot be seen."""

from collections.abc import Iterable
from html import escape

from answerbus.wire import one_line

_TEXT_CHARS_MAX = 2_000  # of one cell: an answer may have 256 KiB


def html_table(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """HTML of two columns under a title; texts are escaped, and cut at 2,000 characters."""
    lines = "".join(f"<tr><th>{_cell(name)}</th><td>{_cell(text)}</td></tr>" for name, text in rows)
    return f"<table><caption>{_cell(title)}</caption>{lines}</table>"


def _cell(text: str) -> str:
    shown = text if len(text) <= _TEXT_CHARS_MAX else text[: _TEXT_CHARS_MAX - 1] + "…"
    return escape(one_line(shown))
