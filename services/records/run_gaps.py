"""Detects missing parts of open runs in a lane's private topic, by their keys; pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from answerbus.private.runs import (
    RunCallRecord,
    RunCancelRecord,
    RunChildRecord,
    RunRecord,
    RunsRecord,
    RunStepRecord,
    head_key,
    runs_key,
    step_key,
)
from answerbus.request_key import SEPARATOR


class _Part(NamedTuple):
    run: str  # the key of the record with which it begins
    after: str  # the key of the step without which it cannot be
    after_step: int  # its number; 0 for none
    offset: int


@dataclass(slots=True)
class RunGaps:
    """The records of one lane's open runs, and at which offsets they stand.

    A step comes after the one before it, a call after its step, and all after the run's own record.
    The last step of a run may be missing unseen: nothing comes after it but its calls.
    """

    _taken_over: dict[str, int] = field(default_factory=dict)  # steps of each run from another
    _parts: dict[str, _Part] = field(default_factory=dict)
    _unreadable: set[str] = field(default_factory=set)  # keys of what is reported by itself
    _passed: set[int] = field(default_factory=set)

    def take(self, record: RunsRecord, offset: int) -> None:
        """A record; of two with one key the later counts."""
        match record:
            case RunRecord(request=request):
                self._taken_over[runs_key(record)] = (
                    len(request.resumed.steps) if request.resumed else 0
                )
            case RunStepRecord():
                self._parts[runs_key(record)] = _part(record, record.n - 1, offset)
            case RunCallRecord():
                self._parts[runs_key(record)] = _part(record, record.n, offset)
            case RunChildRecord() | RunCancelRecord():
                pass

    def take_unreadable(self, key: bytes | None, _offset: int) -> None:
        """A record that cannot be read is reported by itself, with what is lost with it."""
        self._unreadable.add(_name(key))

    def end(self, key: bytes | None) -> None:
        name = _name(key)
        self._taken_over.pop(name, None)
        self._parts.pop(name, None)

    def skip(self, offset: int) -> None:
        """An operator has skipped what is wrong at an offset."""
        self._passed.add(offset)

    def missing(self) -> Iterator[tuple[int, str]]:
        """Once all are read: of each record that is missing, the first one that needs it."""
        needed: dict[str, list[_Part]] = {}
        for part in self._parts.values():
            if (wanted := self._wanted(part)) is not None:
                needed.setdefault(wanted, []).append(part)
        for wanted, parts in needed.items():
            if self._passed.isdisjoint(part.offset for part in parts):
                first = min(parts, key=lambda part: part.offset)
                yield first.offset, f"{_what(wanted)}, before this record, is missing"

    def _wanted(self, part: _Part) -> str | None:
        """The key of the record that is missing before a part."""
        taken_over = self._taken_over.get(part.run)
        if taken_over is None:
            wanted = part.run
        else:
            wanted = part.after
            if part.after_step <= taken_over or wanted in self._parts:
                return None
        return None if wanted in self._unreadable else wanted


def _name(key: bytes | None) -> str:
    return (key or b"").decode(errors="replace")


def _part(record: RunStepRecord | RunCallRecord, after: int, offset: int) -> _Part:
    key = step_key(record.request_id, after, record.workflow_id)
    return _Part(head_key(record), key, after, offset)


def _what(wanted: str) -> str:
    name, _, n = wanted.partition(SEPARATOR)[0].partition("/")
    return f"step {n} of the run {name!a}" if n else f"the beginning of the run {name!a}"
