"""A log that is not flooded: what is said again is counted, and told with its count."""

import io
import json
import logging
import sys
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

import pytest

from services.telemetry.log_context import set_log_context
from services.telemetry.logs import (
    TEXTS_MAX,
    WINDOW_S,
    JsonLines,
    RepeatLimit,
    RepeatLimitingHandler,
    in_a_thread,
)


def record(
    text: str, *args: object, line: int = 1, level: int = logging.ERROR
) -> logging.LogRecord:
    return logging.LogRecord("aiokafka.client", level, "client.py", line, text, args, None)


def counts(reply: list[logging.LogRecord]) -> list[tuple[str, int]]:
    return [(one.getMessage(), getattr(one, "repeated", 0)) for one in reply]


@pytest.mark.wide
def test_a_flood_is_one_line_a_minute_for_each_place_and_none_is_lost_from_the_count() -> None:
    repeats, reported = RepeatLimit(), []
    for step in range(30_000):  # five minutes of two brokers away, 100 lines a second
        node = step % 2
        reported += repeats.admit(record("no connection to node %s", node), step / 100)
    reported += repeats.rest()

    assert len(reported) <= 2 * (5 + 1)
    assert sum(count or 1 for _, count in counts(reported)) == 30_000
    assert {text for text, _ in counts(reported)} == {
        "no connection to node 0",
        "no connection to node 1",
    }


def test_the_first_of_a_new_window_says_how_many_were_kept_back() -> None:
    repeats = RepeatLimit()
    texts = [repeats.admit(record("down"), at) for at in (0.0, 1.0, 2.0, WINDOW_S + 1)]

    assert [counts(text) for text in texts] == [[("down", 0)], [], [], [("down", 3)]]


def test_a_repeat_that_ended_is_logged_with_its_count_before_the_next_line() -> None:
    repeats = RepeatLimit()
    for at in (0.0, 1.0, 2.0):
        repeats.admit(record("down"), at)

    assert counts(repeats.admit(record("up", line=2), WINDOW_S + 5)) == [("down", 2), ("up", 0)]
    assert repeats.rest() == []


def test_texts_that_differ_each_time_are_bounded_too() -> None:
    repeats, reported = RepeatLimit(), []
    for number in range(1_000):
        reported += repeats.admit(record("request %d timed out", number), number / 100)

    assert len(reported) == TEXTS_MAX + 1
    assert sum(more for _, more in counts(repeats.rest())) == 1_000 - len(reported)


def test_what_is_no_warning_is_never_kept_back() -> None:
    repeats = RepeatLimit()
    texts = [repeats.admit(record("ended", level=logging.INFO), 0.0) for _ in range(5)]

    assert [len(text) for text in texts] == [1] * 5


def test_different_errors_at_one_place_are_different_causes() -> None:
    repeats, reported = RepeatLimit(), []
    for error in (ValueError("a"), KeyError("b"), ValueError("c")):
        try:
            raise error
        except (ValueError, KeyError):
            one = record("it broke")
            one.exc_info = sys.exc_info()
            reported += repeats.admit(one, 0.0)

    assert len(reported) == 2
    assert counts(repeats.rest()) == [("it broke", 1)]


def test_arguments_that_do_not_fit_harm_no_other_call() -> None:
    assert len(RepeatLimit().admit(record("%d of %d", "one"), 0.0)) == 1


def test_a_handler_writes_the_counts_at_its_end() -> None:
    stream = io.StringIO()
    handler = RepeatLimitingHandler(stream)
    handler.setFormatter(JsonLines())
    for _ in range(4):
        handler.handle(record("down"))
    handler.close()

    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line.get("repeated") for line in lines] == [None, 3]


class VirtualTime:
    """A clock and its timers, which only this moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.due: list[tuple[float, Callable[[], None]]] = []
        self.fired = 0

    def later(self, delay_s: float, act: Callable[[], None]) -> Callable[[], None]:
        entry = (self.now + delay_s, act)
        self.due.append(entry)
        return lambda: self.due.remove(entry)

    def to(self, now: float) -> None:
        while due := [entry for entry in self.due if entry[0] <= now]:
            entry = min(due, key=lambda one: one[0])
            self.due.remove(entry)
            self.now, self.fired = entry[0], self.fired + 1
            entry[1]()
        self.now = now


def handler_and_lines(
    time: VirtualTime,
) -> tuple[RepeatLimitingHandler, Callable[[], list[dict[str, Any]]]]:
    stream = io.StringIO()
    handler = RepeatLimitingHandler(stream, lambda: time.now, time.later)
    handler.setFormatter(JsonLines())
    return handler, lambda: [json.loads(line) for line in stream.getvalue().splitlines()]


def test_counts_are_logged_after_a_minute_without_other_lines() -> None:
    time = VirtualTime()
    handler, lines = handler_and_lines(time)
    for _ in range(4):
        handler.handle(record("down"))
    time.to(2 * WINDOW_S)

    assert [line.get("repeated") for line in lines()] == [None, 3]
    time.to(100 * WINDOW_S)
    assert time.due == []
    assert len(lines()) == 2
    handler.close()
    assert len(lines()) == 2


def test_a_flood_starts_the_timer_once_a_minute_at_most_and_loses_no_count() -> None:
    time = VirtualTime()
    handler, lines = handler_and_lines(time)
    for step in range(6_000):  # ten minutes, four kinds that begin at different times
        time.to(step / 10)
        handler.handle(record("no connection to node %d", step % 4, line=step % 4))
    time.to(12 * 60.0)

    assert time.fired <= 12
    assert sum(line.get("repeated", 1) for line in lines()) == 6_000
    assert len(lines()) <= 4 * 12


def test_a_count_names_the_request_of_the_last_line_that_it_counts() -> None:
    time = VirtualTime()
    handler, lines = handler_and_lines(time)

    def said(request_id: str) -> None:
        set_log_context(request_id, "order-1", "ab" * 16)
        handler.handle(record("timed out"))

    for request_id in ("r-1", "r-2", "r-3"):
        copy_context().run(said, request_id)
    time.to(2 * WINDOW_S)

    texts = [(line["request_id"], line.get("repeated")) for line in lines()]
    assert texts == [("r-1", None), ("r-3", 2)]


def test_after_its_end_a_handler_starts_no_timer() -> None:
    time = VirtualTime()
    handler, lines = handler_and_lines(time)
    for _ in range(3):
        handler.handle(record("down"))
    handler.close()

    assert time.due == []
    assert [line.get("repeated") for line in lines()] == [None, 2]


def test_a_real_timer_tells_and_holds_no_process_up() -> None:
    reported = threading.Event()
    cancel = in_a_thread(0.0, reported.set)
    assert reported.wait(10)
    cancel()
