"""Lines of a log for people: one line of ours for each record, whatever others wrote into it."""

import logging
import sys
from typing import Any

from answerbus.masking import NO_MASK, Mask
from services.telemetry.text_lines import TextLines

FORGED = "x\x1b[2J\n2026-01-01 00:00:00,000 INFO all is well"


def text(message: str, *args: object, mask: Mask = NO_MASK, **more: Any) -> list[str]:
    record = logging.makeLogRecord({"levelname": "ERROR", "msg": message, "args": args, **more})
    return TextLines(mask).format(record).splitlines()


def fail() -> None:
    raise ValueError(FORGED)


def test_a_message_of_others_forges_no_line_and_commands_no_terminal() -> None:
    first, further = text("no such order: %s", FORGED)

    assert first.endswith(r" ERROR no such order: x\u001b[2J")
    assert further == "  | 2026-01-01 00:00:00,000 INFO all is well"


def test_a_traceback_keeps_its_words_and_forges_no_line_either() -> None:
    try:
        fail()
    except ValueError:
        lines = text("it broke", exc_info=sys.exc_info())

    assert all(line.startswith("  | ") for line in lines[1:])
    assert lines[-2:] == [
        r"  | ValueError: x\u001b[2J",
        "  | 2026-01-01 00:00:00,000 INFO all is well",
    ]


def test_secrets_are_masked_and_repeats_are_counted() -> None:
    (line,) = text("refused: a-token-of-length", mask=Mask(["a-token-of-length"]), repeated=3)

    assert line.endswith(" ERROR refused: *** (3 times)")
