"""Keeps a log from being flooded: one line per cause, place and minute, with a count."""

import logging
from dataclasses import dataclass

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
        """The records to tell now: what windows that have ended kept back, and maybe this one."""
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
        """What was kept back and is not written yet, for the end."""
        found = [_counted(entry) for entry in self._recent.values() if entry.kept_back]
        self._recent.clear()
        return found

    def ended(self, now: float) -> list[logging.LogRecord]:
        """What windows that have ended kept back."""
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
