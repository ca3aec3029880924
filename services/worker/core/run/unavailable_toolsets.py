"""Toolsets whose topic cannot be written: skipped for a while, each time longer."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

PAUSE_FIRST = timedelta(seconds=10)
PAUSE_FACTOR = 2
PAUSE_MAX = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class _Pause:
    length: timedelta
    until: datetime


@dataclass(slots=True)
class UnavailableToolsets:
    """What all lanes of a worker know: a write that fails ends the transaction of its lane."""

    _pauses: dict[str, _Pause] = field(default_factory=dict)

    def is_available(self, toolset: str, now: datetime) -> bool:
        """Whether its calls may be written: always, but for the pauses after a failure."""
        pause = self._pauses.get(toolset)
        return pause is None or now >= pause.until

    def failed(self, toolset: str, now: datetime) -> None:
        """Its topic could not be written; lanes that find this at once count as one."""
        if not self.is_available(toolset, now):
            return
        before = self._pauses.get(toolset)
        length = min(before.length * PAUSE_FACTOR, PAUSE_MAX) if before else PAUSE_FIRST
        self._pauses[toolset] = _Pause(length, now + length)

    def written(self, toolsets: Iterable[str]) -> None:
        """Their topics could be written."""
        for toolset in toolsets:
            self._pauses.pop(toolset, None)
