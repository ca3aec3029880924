"""Lines of the log: what they are about, and what is never in one."""

import json
import logging
import subprocess
import sys
import time
from contextvars import copy_context
from typing import Any

import pytest

from answerbus.masking import NO_MASK, Mask
from services.telemetry.log_context import clear_log_context, set_log_context
from services.telemetry.logs import JsonLines
from services.telemetry.text_lines import TextLines

SECRET = "sk-very-secret"


def line(name: str, message: str, *args: object, **more: Any) -> dict[str, Any]:
    record = logging.LogRecord(name, logging.ERROR, "x.py", 1, message, args, more.get("exc_info"))
    found: dict[str, Any] = json.loads(JsonLines().format(record))
    del found["at"]
    return found


def test_a_line_about_a_request_names_it_and_its_trace() -> None:
    def inside() -> list[dict[str, Any]]:
        set_log_context("r-1", "order-1", "ab" * 16)
        about_it = line("services.worker.handle", "lane %d", 7)
        clear_log_context()
        return [about_it, line("services.worker.handle", "lane %d", 7)]

    plain = {"level": "error", "logger": "services.worker.handle", "message": "lane 7"}
    ids = {"request_id": "r-1", "workflow_id": "order-1", "trace_id": "ab" * 16}
    assert copy_context().run(inside) == [{**plain, **ids}, plain]
    assert line("services.worker.handle", "lane %d", 7) == plain


@pytest.mark.parametrize(
    ("name", "message", "args", "text"),
    [
        ("asyncio", f"Task exception was never retrieved\nfuture: {SECRET}", (), 0),
        ("httpx", "Request: %s", (SECRET,), "Request: %s"),
        ("openai._base_client", "%s", (SECRET,), "%s"),
        ("botocore.parsers", "Response body:\n%r", (SECRET,), "Response body:"),
        ("py.warnings", "%s", (f"a.py:3: UserWarning: unexpected value {SECRET}",), 1),
    ],
)
def test_what_a_library_may_quote_is_left_out(
    name: str, message: str, args: tuple[str, ...], text: str | int
) -> None:
    known = {0: "Task exception was never retrieved", 1: "a.py:3: UserWarning"}
    expected = known[text] if isinstance(text, int) else text

    assert line(name, message, *args)["message"] == expected


def test_at_debug_no_library_of_a_cloud_writes_what_it_was_answered() -> None:
    program = f"""if True:
        import logging
        from answerbus.masking import NO_MASK
        from services.telemetry.logs import start_logging
        start_logging("debug", NO_MASK)
        for name in ("botocore.parsers", "azure.core", "msal.token", "google.auth", "urllib3"):
            logging.getLogger(name).debug("body {SECRET}")
        logging.getLogger("services.x").debug("ours")
    """
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, check=True, capture_output=True, text=True)

    assert SECRET not in done.stderr
    assert "ours" in done.stderr


def test_an_exception_is_logged_by_type_and_place_without_its_text() -> None:
    try:
        int(SECRET)
    except ValueError:
        reported = line("services.x", "it broke", exc_info=sys.exc_info())

    assert (reported["exception"], reported["message"]) == ("ValueError", "it broke")
    assert reported["where"].startswith("test_logs.py:")
    assert SECRET not in json.dumps(reported)


def test_a_secret_that_gets_into_a_line_all_the_same_is_masked() -> None:
    key = 'sk-4711-"very"-secret'
    record = logging.LogRecord("services.x", logging.ERROR, "x.py", 1, "said: %s", (key,), None)

    body = json.loads(JsonLines(Mask([key])).format(record))

    assert body["message"] == "said: ***"


def test_a_line_commands_no_terminal() -> None:
    reported = line("services.x", "%s", "\x1b[2J\u202e\U000e0041\x7f\ud800")
    record = logging.LogRecord("x", logging.ERROR, "x.py", 1, "\x1b\u202e\x9b\x7f\ud800", (), None)

    assert reported["message"] == "\x1b[2J\u202e\U000e0041\x7f\ud800"
    assert JsonLines().format(record).isprintable()
    assert JsonLines().format(record).isascii()


def test_times_are_of_utc_on_each_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    record = logging.makeLogRecord({"name": "x", "msg": "hello", "created": 1.25, "msecs": 250.0})
    with monkeypatch.context() as machine:
        machine.setenv("TZ", "Pacific/Kiritimati")
        time.tzset()
        for_programs = JsonLines().format(record)
        for_people = TextLines(NO_MASK).format(record)
    time.tzset()

    assert json.loads(for_programs)["at"] == "1970-01-01T00:00:01.250Z"
    assert for_people.startswith("1970-01-01 00:00:01.250Z ")
