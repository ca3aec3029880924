"""What a screen may show: nothing unseen, no command to it, and JSON that stays the same."""

import json
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from services.command_line import json_shown, stdout
from services.text.escaping import json_line, json_lines, plain, plain_json, plain_line

UNSEEN = (
    "\x00\x07\x08\r\x1b\x7f\x80\x9b\x9f"  # controls
    "\u00ad\u061c\u200b\u200c\u200d\u200e\u200f\u202a\u202e\u2060\u2066\u2069\ufeff"  # format
    "\u2028\u2029\u00a0\u3000"  # separators and spaces
    "\u034f\u115f\u1160\u17b4\u180b\u180e\u2800\u3164\uffa0\ufe00\ufe0f"  # signs without a shape
    "\U0001d173\U000e0001\U000e0041\U000e0100\U000e01ef"  # of music, tags, selectors
    "\ue000\U000f0000\ufff0\uffff\ud800\udfff"  # private, unassigned, half pairs
)
texts = st.text(st.characters() | st.sampled_from(UNSEEN))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ein Café, 東京 👍, Ἀθῆναι, कि", "Ein Café, 東京 👍, Ἀθῆναι, कि"),
        ("two\n\tlines", "two\n\tlines"),
        ("\x1b[31m\x07\r", r"\u001b[31m\u0007\u000d"),
        ("\u202egnp", r"\u202egnp"),
        ("\x9b31m", r"\u009b31m"),
        ("a\U000e0041\ufe0f", r"a\U000e0041\ufe0f"),
        ("\ud800", r"\ud800"),
    ],
)
def test_text_keeps_letters_and_writes_out_commands(text: str, expected: str) -> None:
    assert plain(text) == expected
    assert plain(expected) == expected


def test_a_line_stays_one() -> None:
    assert plain_line("one\n\ttwo\r\n") == r"one\n\ttwo\u000d\n"


@pytest.mark.wide
def test_nothing_that_unicode_calls_ignorable_or_control_is_left() -> None:
    left = [
        sign
        for sign in map(chr, range(sys.maxunicode + 1))
        if plain(sign) == sign
        and unicodedata.category(sign) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    ]

    assert left == ["\t", "\n"]
    assert [sign for sign in UNSEEN if plain(sign) == sign] == []


@pytest.mark.wide
@given(values)
def test_json_for_a_terminal_is_the_same_value(value: object) -> None:
    for text in (json_line(value), json_lines(value), plain_json(json.dumps(value))):
        assert json.loads(text) == value
        assert not set(text) & set(UNSEEN)
        text.encode()


@pytest.mark.parametrize("sign", UNSEEN)
def test_whatever_is_printed_commands_no_terminal(
    sign: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where somebody has forgotten to escape."""
    table = Table("a", title=sign)
    table.add_row(Text(f"x{sign}y"), f"x{sign}y")
    for one in (f"x{sign}y", Text(f"x{sign}y"), Panel(Text(sign), title=sign), table):
        stdout().print(one)
    stdout().print(json_shown({"a": sign}))

    assert sign not in capsys.readouterr().out


@pytest.mark.parametrize("text", ["tenant:key:42", "a [list] of [b]names", "[/b]", "[link=x]y[/]"])
def test_what_looks_like_markup_or_a_picture_is_printed_as_it_is(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such as an id with colons, which is to be copied, or arguments that are to be approved."""
    table = Table(text, title=text, show_edge=False)
    table.add_row(text)
    stdout().print(text)
    stdout().print(text, markup=False)
    stdout().print(table)

    assert capsys.readouterr().out.count(text) == 5
