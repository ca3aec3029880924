"""A log that is not flooded: what is said again is counted, and told with its count."""

import io
import json
import logging
import sys

from services.telemetry.logs import CalmHandler, JsonLines
from services.telemetry.repeats import TEXTS_MAX, WINDOW_S, Repeats


def record(
    text: str, *args: object, line: int = 1, level: int = logging.ERROR
) -> logging.LogRecord:
    return logging.LogRecord("aiokafka.client", level, "client.py", line, text, args, None)


def counts(told: list[logging.LogRecord]) -> list[tuple[str, int]]:
    return [(one.getMessage(), getattr(one, "repeated", 0)) for one in told]


def test_a_flood_is_one_line_a_minute_for_each_place_and_none_is_lost_from_the_count() -> None:
    repeats, told = Repeats(), []
    for step in range(30_000):  # five minutes of two brokers away, 100 lines a second
        node = step % 2
        told += repeats.told(record("no connection to node %s", node), step / 100)
    told += repeats.rest()

    assert len(told) <= 2 * (5 + 1)
    assert sum(count or 1 for _, count in counts(told)) == 30_000
    assert {text for text, _ in counts(told)} == {
        "no connection to node 0",
        "no connection to node 1",
    }


def test_the_first_of_a_new_window_says_how_many_were_kept_back() -> None:
    repeats = Repeats()
    said = [repeats.told(record("down"), at) for at in (0.0, 1.0, 2.0, WINDOW_S + 1)]

    assert [counts(one) for one in said] == [[("down", 0)], [], [], [("down", 3)]]


def test_what_has_ended_is_told_with_its_count_when_something_else_is_said() -> None:
    repeats = Repeats()
    for at in (0.0, 1.0, 2.0):
        repeats.told(record("down"), at)

    assert counts(repeats.told(record("up", line=2), WINDOW_S + 5)) == [("down", 2), ("up", 0)]
    assert repeats.rest() == []


def test_texts_that_differ_each_time_are_bounded_too() -> None:
    repeats, told = Repeats(), []
    for number in range(1_000):
        told += repeats.told(record("request %d timed out", number), number / 100)

    assert len(told) == TEXTS_MAX + 1
    assert sum(more for _, more in counts(repeats.rest())) == 1_000 - len(told)


def test_what_is_no_warning_is_never_kept_back() -> None:
    repeats = Repeats()
    told = [repeats.told(record("ended", level=logging.INFO), 0.0) for _ in range(5)]

    assert [len(one) for one in told] == [1] * 5


def test_different_errors_at_one_place_are_different_causes() -> None:
    repeats, told = Repeats(), []
    for error in (ValueError("a"), KeyError("b"), ValueError("c")):
        try:
            raise error
        except (ValueError, KeyError):
            one = record("it broke")
            one.exc_info = sys.exc_info()
            told += repeats.told(one, 0.0)

    assert len(told) == 2
    assert counts(repeats.rest()) == [("it broke", 1)]


def test_arguments_that_do_not_fit_harm_nobody() -> None:
    assert len(Repeats().told(record("%d of %d", "one"), 0.0)) == 1


def test_a_handler_writes_the_counts_at_its_end() -> None:
    stream = io.StringIO()
    handler = CalmHandler(stream)
    handler.setFormatter(JsonLines())
    for _ in range(4):
        handler.handle(record("down"))
    handler.close()

    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line.get("repeated") for line in lines] == [None, 3]
