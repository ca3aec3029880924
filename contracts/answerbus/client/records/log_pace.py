"""Limits the log lines about invalid records, which anyone who may write a topic can cause."""

import time

NOTICE_EVERY_S = 60.0  # for each partition

Place = tuple[str, int]


class LogPace:
    """One line in NOTICE_EVERY_S for each partition."""

    def __init__(self) -> None:
        self._due: dict[Place, float] = {}
        self._suppressed: dict[Place, int] = {}

    def more(self, place: Place) -> str | None:
        """How many lines were left out before this one, in words; None to leave this out, too."""
        now = time.monotonic()
        if now < self._due.get(place, now):
            self._suppressed[place] = self._suppressed.get(place, 0) + 1
            return None
        self._due[place] = now + NOTICE_EVERY_S
        suppressed = self._suppressed.pop(place, 0)
        return f", and {suppressed:,} before it" if suppressed else ""
