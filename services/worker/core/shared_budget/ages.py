"""When records were written last: by the hour, which takes little memory for each; pure."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

_HOUR_S = 3_600

Key = TypeVar("Key", bound=Hashable)


@dataclass(slots=True)
class Ages(Generic[Key]):
    """Keys by the hour of their last record; there are few hours, since what is old is taken."""

    _by_hour: dict[int, dict[Key, None]] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(len(keys) for keys in self._by_hour.values())

    def note(self, key: Key, at: datetime) -> None:
        self.forget(key)
        self._by_hour.setdefault(_hour(at), {})[key] = None

    def forget(self, key: Key) -> None:
        for keys in reversed(self._by_hour.values()):  # what changes has often changed lately
            if key in keys:
                del keys[key]
                return

    def take_old(self, before: datetime, most: int) -> list[Key]:
        """Those of the oldest hours, which are noted no more."""
        taken: list[Key] = []
        while self._by_hour and (oldest := min(self._by_hour)) < _hour(before):
            keys = self._by_hour[oldest]
            while keys and len(taken) < most:
                taken.append(keys.popitem()[0])
            if keys:
                break
            del self._by_hour[oldest]
        return taken


def _hour(at: datetime) -> int:
    return int(at.timestamp()) // _HOUR_S
