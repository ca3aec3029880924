"""Logs as JSON lines on stderr: ids and counts, never a key, a prompt or an answer."""

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Literal, TextIO

from answerbus.masking import NO_MASK, Mask
from services.telemetry.log_context import LOG_CONTEXT
from services.text.escaping import json_line

Level = Literal["debug", "info", "warning", "error"]

_WARNINGS_ONLY = ("aiokafka", "kafka", "faststream")
# These may quote what they were given: arguments of calls, bodies of responses.
_VERBOSE = (
    *("aiohttp", "asyncio", "opentelemetry", "py"),
    *("httpx", "httpx2", "httpcore", "httpcore2", "anthropic", "google_genai", "ollama", "openai"),
    *("azure", "botocore", "google", "msal", "requests", "urllib3"),  # replies with credentials
)
WINDOW_S = 60.0
TEXTS_MAX = 10  # different texts of one line of code in a window; further ones are only counted

_Key = tuple[str, int, str, str, str]


@dataclass(slots=True)
class _Repeated:
    """What was said in the window that began then, and how often it was kept back since."""

    last: logging.LogRecord
    began_at: float
    kept_back: int = 0


class RepeatLimit:
    """Decides which records to write; `repeated` on a record counts those since the last line."""

    def __init__(self) -> None:
        self._recent: dict[_Key, _Repeated] = {}  # in the order in which the windows began

    def admit(self, record: logging.LogRecord, now: float) -> list[logging.LogRecord]:
        """The records to write now: those that ended windows held back, and maybe this one."""
        if record.levelno < logging.WARNING:
            return [*self.ended(now), record]
        key = self._key(record)
        before = self._recent.get(key)
        if before is not None and now - before.began_at < WINDOW_S:
            before.kept_back += 1
            before.last = _light(record)
            return self.ended(now)
        if before is not None:
            del self._recent[key]
            if before.kept_back:
                record.repeated = before.kept_back + 1
        self._recent[key] = _Repeated(_light(record), now)
        return [*self.ended(now), record]

    @property
    def keeps_any(self) -> bool:
        """Whether something was kept back and is not written yet."""
        return any(entry.kept_back for entry in self._recent.values())

    def rest(self) -> list[logging.LogRecord]:
        """All that was kept back and is not written yet, for the end."""
        found = [_counted(entry) for entry in self._recent.values() if entry.kept_back]
        self._recent.clear()
        return found

    def ended(self, now: float) -> list[logging.LogRecord]:
        """The lines that were kept back by windows that have ended."""
        found: list[tuple[_Key, logging.LogRecord]] = []
        for key, entry in list(self._recent.items()):
            if now - entry.began_at < WINDOW_S:
                break
            del self._recent[key]
            if entry.kept_back:
                found.append((key, _counted(entry)))
        for key, record in found:  # which is the one line of its next window
            self._recent[key] = _Repeated(_light(record), now)
        return [record for _, record in found]

    def _key(self, record: logging.LogRecord) -> _Key:
        """Cause and place: where it is said, of which error, and in which words."""
        error = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else ""
        where = (record.name, record.lineno, record.pathname, error)
        key = (*where, _text(record))
        if key in self._recent:
            return key
        known = sum(1 for other in self._recent if other[:4] == where)
        return key if known < TEXTS_MAX else (*where, "")


def _counted(entry: _Repeated) -> logging.LogRecord:
    record = _light(entry.last)
    record.repeated = entry.kept_back
    return record


def _text(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError):  # its arguments do not fit; the handler says so
        return str(record.msg)


def _light(record: logging.LogRecord) -> logging.LogRecord:
    """A copy that keeps no exception, and with it no frames, alive."""
    copy = logging.makeLogRecord(record.__dict__)
    copy.exc_info = copy.exc_text = None
    copy.__dict__.pop("repeated", None)
    return copy


class JsonLines(logging.Formatter):
    """One object a line, with `mask` put over all of it."""

    converter = staticmethod(time.gmtime)

    def __init__(self, mask: Mask = NO_MASK) -> None:
        super().__init__()
        self._mask = mask

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, logger, message; of an exception its type and where, not its words."""
        line = {
            "at": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
            **_about(record),
        }
        if record.exc_info and record.exc_info[0]:
            line["exception"] = record.exc_info[0].__name__
            line["where"] = self._where(record)
        return self._mask(json_line(line))

    @staticmethod
    def _where(record: logging.LogRecord) -> str:
        frames = []
        trace = record.exc_info[2] if record.exc_info else None
        while trace:
            code = trace.tb_frame.f_code
            frames.append(f"{code.co_filename.rsplit('/', 1)[-1]}:{trace.tb_lineno} {code.co_name}")
            trace = trace.tb_next
        return " < ".join(reversed(frames))


Clock = Callable[[], float]
Cancel = Callable[[], None]
Later = Callable[[float, Callable[[], None]], Cancel]


def in_a_thread(delay_s: float, act: Callable[[], None]) -> Cancel:
    """Act after a while; given is what prevents it. The end of the process does not wait for it."""
    timer = threading.Timer(delay_s, act)
    timer.daemon = True
    timer.start()
    return timer.cancel


class RepeatLimitingHandler(logging.StreamHandler[TextIO]):
    """Writes lines; what is said again and again is counted (see Repeats).

    Counts are written with the next line of their kind, or by a timer, once a minute at most.
    """

    def __init__(
        self, stream: TextIO, clock: Clock = time.monotonic, later: Later = in_a_thread
    ) -> None:
        super().__init__(stream)
        self._repeats = RepeatLimit()
        self._clock, self._later = clock, later
        self._cancel: Cancel | None = None
        self._closed = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write what is due now."""
        record.about = LOG_CONTEXT.get()
        self._write(self._repeats.admit(record, self._clock()))

    def close(self) -> None:
        """Write what was kept back, and end."""
        with self.lock or nullcontext():
            self._closed = True
            if self._cancel:
                self._cancel()
            self._write(self._repeats.rest())
        super().close()

    def _write(self, records: Iterable[logging.LogRecord]) -> None:
        for record in records:
            super().emit(record)
        if not self._cancel and not self._closed and self._repeats.keeps_any:
            self._cancel = self._later(WINDOW_S, self._minute_passed)

    def _minute_passed(self) -> None:
        with self.lock or nullcontext():
            self._cancel = None
            if not self._closed:
                self._write(self._repeats.ended(self._clock()))


def _about(record: logging.LogRecord) -> Mapping[str, object]:
    """The subject of a line; one that counts others has the subject of the last of them."""
    about: Mapping[str, object] = getattr(record, "about", None) or LOG_CONTEXT.get() or {}
    repeated = getattr(record, "repeated", None)
    return {"repeated": repeated, **about} if repeated else about


def _message(record: logging.LogRecord) -> str:
    """The message; of libraries that may quote content, the text without its arguments."""
    if record.name.partition(".")[0] not in _VERBOSE:
        return record.getMessage()
    if record.name == "py.warnings":
        return ": ".join(record.getMessage().split(": ")[:2])  # the place and the category
    return str(record.msg).partition("\n")[0]


def start_logging(level: Level, mask: Mask) -> None:
    """Send everything to stderr, without secrets; libraries speak from warnings up."""
    handler = RepeatLimitingHandler(sys.stderr)
    handler.setFormatter(JsonLines(mask))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(capture=True)
    for name in (*_WARNINGS_ONLY, *_VERBOSE):
        logging.getLogger(name).setLevel(logging.ERROR)
    logging.getLogger("py.warnings").setLevel(logging.WARNING)
