"""Logs unreadable records, one line at a time, without flooding the log."""

import logging
import time

from answerbus.client.records.unreadable import Unreadable

NOTICE_EVERY_S = 60.0  # for each partition

_log = logging.getLogger(__name__)


class UnreadableLog:
    """Counts what was passed by; `counts` has the total of each topic."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._due: dict[tuple[str, int], float] = {}
        self._suppressed: dict[tuple[str, int], int] = {}

    def report(self, found: Unreadable) -> None:
        """Count it, and say so if the partition has not been spoken of for a while."""
        self.counts[found.topic] = self.counts.get(found.topic, 0) + 1
        place, now = (found.topic, found.partition), time.monotonic()
        if now < self._due.get(place, now):
            self._suppressed[place] = self._suppressed.get(place, 0) + 1
            return
        self._due[place] = now + NOTICE_EVERY_S
        suppressed = self._suppressed.pop(place, 0)
        more = f", and {suppressed:,} before it" if suppressed else ""
        _log.warning("a record cannot be read%s: %s", more, found)
