"""Arguments of a call as a person approves them: whole, in one order, with nothing unseen."""

import json
from typing import Any

import pytest
from pydantic import JsonValue

from answerbus.control import ApprovalRequested
from services.operators.runs.run_words import args_lines
from services.operators.runs.shown_args import (
    ARGS_CHARS_MAX,
    DIGEST_CHARS,
    LETTERS_MAX,
    is_intact,
    shown_args,
)
from services.text.digest import canonical_digest
from tests.cost.budget import ANYBODY, peak_bytes, spent
from tests.unit.operators.runs.events import approval_asked

MALLORY = "and 99,000,000 cents to Mallory"


def asked(args: dict[str, Any]) -> ApprovalRequested:
    event = approval_asked("r-1.call.1.0", args=args, args_digest=canonical_digest(args))
    assert isinstance(event, ApprovalRequested)
    return event


def test_what_stands_behind_200_characters_is_shown() -> None:
    requested = asked({"note": "x" * 300 + MALLORY})

    assert MALLORY in "\n".join(args_lines(requested))
    assert not shown_args(requested).is_cut


def test_members_have_one_order_whatever_the_model_wrote() -> None:
    first, second = asked({"b": 1, "a": {"d": 1, "c": 2}}), asked({"a": {"c": 2, "d": 1}, "b": 1})

    assert shown_args(first) == shown_args(second)
    assert shown_args(first).digest == first.args_digest


@pytest.mark.wide
@pytest.mark.parametrize("levels", [1, 10, 90])
def test_what_is_shown_is_not_many_times_the_arguments(levels: int) -> None:
    """A page shows 20 of these every 2 s; 32 KB at 90 levels took 0.15 s each."""
    value: JsonValue = [0] * 16_000
    for _ in range(levels):
        value = [value]
    requested = asked({"a": value})
    size = len(requested.model_dump_json())

    shown = shown_args(requested)

    assert len(shown.text) + shown.hidden < size * 30
    assert spent(lambda: shown_args(requested)).is_below(3 * ANYBODY.loop_s)
    assert peak_bytes(lambda: shown_args(requested)) < ANYBODY.bytes_max(size)


@pytest.mark.parametrize("sign", ["\x1b", "\u202e", "\u200b", "\u2066", "\x00", "\U000e0041"])
def test_what_cannot_be_seen_is_escaped_and_the_rest_is_whole(sign: str) -> None:
    shown = shown_args(asked({"to": f"Al{sign}ice"}))

    assert sign not in shown.text
    assert json.loads(shown.text) == {"to": f"Al{sign}ice"}


def test_letters_that_look_like_others_are_named() -> None:
    shown = shown_args(asked({"to": "\u041callory"}))
    many = shown_args(asked({"to": "".join(chr(0x4E00 + n) for n in range(100))}))

    assert shown.letters == ("\u041c U+041C CYRILLIC CAPITAL LETTER EM",)
    assert len(many.letters) == LETTERS_MAX + 1
    assert many.letters[-1] == "and 80 more"


@pytest.mark.parametrize("sign", ["\u0430", "\u0421", "\uff41", "\u0131", "\u03bf"])
def test_no_other_letters_hide_one_that_looks_latin(sign: str) -> None:
    others = "".join(map(chr, (*range(0xC0, 0x100), *range(0x5D0, 0x5EB))))  # accents, Hebrew
    first, *_ = shown_args(asked({"to": f"{others}{sign}"})).letters

    assert first.startswith(f"{sign} U+{ord(sign):04X} ")


def test_arguments_that_are_cut_say_so_and_need_their_digest() -> None:
    requested = asked({"note": "x" * ARGS_CHARS_MAX + MALLORY})
    shown, lines = shown_args(requested), args_lines(requested)
    digest = requested.args_digest.removeprefix("sha256:")

    assert len(shown.text) == ARGS_CHARS_MAX
    assert shown.text + "…" != shown_args(requested, None).text
    assert lines[-2].startswith(f"CUT: {shown.hidden:,} more characters")
    assert lines[-1].startswith(f"answerbus approvals show {requested.call_id} --workflow ")
    assert MALLORY in "\n".join(args_lines(requested, None))
    assert shown.is_typed(requested.args_digest)
    assert shown.is_typed(f" {digest[:DIGEST_CHARS].upper()} ")
    for typed in ("", "sha256:", digest[: DIGEST_CHARS - 1], "0" * 64, digest + "0"):
        assert not shown.is_typed(typed)


def test_a_digest_of_other_arguments_is_found() -> None:
    requested = asked({"order_id": "4711"})

    assert is_intact(requested)
    assert not is_intact(requested.model_copy(update={"args": {"order_id": "4712"}}))
