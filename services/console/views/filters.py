"""Filters of dead letters, to and from an address or a form; pure."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Literal
from urllib.parse import urlencode

from services.operators.dead_letters.groups import KEYS, LABEL, Key, key_of
from services.operators.dead_letters.moment import EXAMPLES, as_text, moment_ms
from services.operators.dead_letters.row import STATUSES, Status
from services.operators.dead_letters.selection import TEXT_CHARS_MAX, Selection
from services.operators.records.event_summary import DeadLetterSummary
from services.operators.records.record_filter import RecordFilter
from services.operators.records.summary import RecordSummary

NONE = "none"  # the parameter that names a key which dead letters must not have
ANY = "any"  # the status, or the time, that leaves it open
TEXT, SEEN = "q", "seen"
TimeName = Literal["since", "until"]
TIMES: tuple[TimeName, ...] = ("since", "until")
# In forms; a time that is left empty is not given.
TYPED_TIMES: dict[str, TimeName] = {"from": "since", "to": "until"}
NAMES = (*KEYS, NONE, "id", *TIMES, *TYPED_TIMES, TEXT, SEEN)
Pairs = Iterable[tuple[str, str]]
SeenEnds = tuple[tuple[int, int], ...]
"""By partition, the offset after the last dead letter that was read."""

WHERE_MAX = 20  # filters by keys; each is a link on each row that leads to a group
_ONE = re.compile(r"(\d{1,9}):(\d{1,18})", re.ASCII)


@dataclass(frozen=True, slots=True)
class FilterFault:
    """Why an address does not say which dead letters are meant."""

    reason: str


@dataclass(frozen=True, slots=True)
class DeadLetterFilters:
    """The filters of a page: values by key (None: without one), a status, times, a text, and ids.

    `words` are the times as they were given, such as `1h`: an address stays about the last hour.
    `seen` bounds a form to what its page had read.
    """

    where: tuple[tuple[Key, str | None], ...] = ()
    status: Status | None = "open"
    ids: frozenset[str] = frozenset()
    since_ms: int | None = None
    until_ms: int | None = None
    text: str = ""
    seen: SeenEnds = ()
    words: tuple[tuple[TimeName, str], ...] = field(default=(), compare=False)

    @property
    def selection(self) -> Selection:
        """As the read model of dead letters takes it."""
        statuses = frozenset(STATUSES if self.status is None else (self.status,))
        return Selection(
            self.where,
            self.ids,
            self.since_ms,
            self.until_ms,
            statuses,
            text=self.text,
            seen=self.seen,
        )

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """As the fields of a form, without the ids: what they mean does not move with the clock."""
        times = zip(TIMES, (self.since_ms, self.until_ms), strict=True)
        times_shown = [(name, as_text(at_ms)) for name, at_ms in times if at_ms is not None]
        seen = [(SEEN, f"{partition}:{end}") for partition, end in self.seen]
        return [*self._timeless(), *times_shown, *seen, ("status", self.status or ANY)]

    @property
    def address(self) -> list[tuple[str, str]]:
        """As the parameters of an address, which moves with the clock if it is relative."""
        words = dict(self.words)
        times = zip(TIMES, (self.since_ms, self.until_ms), strict=True)
        times_shown = [
            (name, words.get(name) or as_text(at_ms)) for name, at_ms in times if at_ms is not None
        ]
        return [*self._timeless(), *times_shown, ("status", self.status or ANY)]

    def _timeless(self) -> list[tuple[str, str]]:
        found = [
            (NONE, str(key)) if value is None else (str(key), value) for key, value in self.where
        ]
        return [*found, *([(TEXT, self.text)] if self.text else [])]

    @property
    def query(self) -> str:
        """As the end of an address."""
        return urlencode(self.address)

    def narrowed(self, keys: Sequence[Key], values: Sequence[str | None]) -> "DeadLetterFilters":
        """To a group of these."""
        return replace(self, where=(*self.where, *zip(keys, values, strict=True)))


def filters_of(
    pairs: Pairs, now_ms: int = 0, beside: Collection[str] = ()
) -> DeadLetterFilters | FilterFault:
    """What the parameters say; `beside` are the names of those that are not filters.

    What is not a filter is a fault: left out, it would make "these" into "all".
    """
    found = _Found(now_ms)
    for name, value in pairs:
        if name in beside:
            continue
        if name not in NAMES and key_of(name) is None:
            return FilterFault(_unknown(name, (*NAMES, *beside)))
        if fault := found.take(name, value):
            return fault
        if len(found.where) > WHERE_MAX:
            return FilterFault(f"At most {WHERE_MAX} filters by keys can be combined.")
    return found.filters()


@dataclass(slots=True)
class _Found:
    """The parameters that have been read."""

    now_ms: int
    where: list[tuple[Key, str | None]] = field(default_factory=list)
    status: Status | None = "open"
    ids: set[str] = field(default_factory=set)
    times: dict[TimeName, tuple[str, int]] = field(default_factory=dict)
    text: str = ""
    seen: list[str] = field(default_factory=list)

    def take(self, name: str, value: str) -> FilterFault | None:
        """One parameter; or what is wrong with it."""
        if name == "id":
            self.ids.add(value)
        elif name == TEXT:
            self.text = value.strip()[:TEXT_CHARS_MAX]
        elif name == SEEN:
            self.seen.append(value)
        elif name == "status":
            return self._take_status(value)
        elif name in TIMES or name in TYPED_TIMES:
            return self._take_time(name, value)
        else:
            return self._take_key(name, value)
        return None

    def _take_status(self, value: str) -> FilterFault | None:
        if value not in (*STATUSES, ANY):
            return FilterFault(_none_of("status", value, (*STATUSES, ANY)))
        self.status = next((status for status in STATUSES if status == value), None)
        return None

    def _take_time(self, given: str, value: str) -> FilterFault | None:
        name = next((time for time in TIMES if time == given), None) or TYPED_TIMES[given]
        if value == (ANY if given in TIMES else ""):
            return None
        at_ms = moment_ms(value, self.now_ms)
        if at_ms is None:
            return FilterFault(f"{given}={value!r} is not a time such as {EXAMPLES}.")
        self.times[name] = (value, at_ms)
        return None

    def _take_key(self, name: str, value: str) -> FilterFault | None:
        key = key_of(value if name == NONE else name)
        if key is None:
            return FilterFault(_none_of(name, value, (*KEYS, f"{LABEL}NAME")))
        self.where.append((key, None if name == NONE else value))  # labels may be empty
        return None

    def filters(self) -> DeadLetterFilters | FilterFault:
        seen = seen_ends_of(self.seen)
        if seen is None:
            return FilterFault(f"{SEEN}={self.seen!r} is not such as 0:4711.")
        since, until = (self.times.get(name) for name in TIMES)
        if since and until and since[1] >= until[1]:
            return FilterFault("The beginning of the time must be before its end.")
        return DeadLetterFilters(
            tuple(dict.fromkeys(self.where)),
            self.status,
            frozenset(self.ids),
            since and since[1],
            until and until[1],
            self.text,
            seen,
            tuple((name, words) for name, (words, _) in self.times.items()),
        )


def _unknown(name: str, known: Collection[str]) -> str:
    close = get_close_matches(name.lower(), known, n=1)
    meant = f"; did you mean {close[0]!r}?" if close else "."
    listed = ", ".join((*NAMES, f"{LABEL}NAME"))
    return f"There is no filter {name!r}{meant} There are: {listed}."


def _none_of(name: str, value: str, known: Collection[str]) -> str:
    return f"{name}={value!r} is none of {', '.join(known)}."


@dataclass(frozen=True, slots=True)
class TailFilter:
    """`text` is looked for in ids, labels and codes, in upper or lower case; empty is any."""

    records: RecordFilter
    text: str = ""
    since_ms: int | None = None

    def admits(self, record: RecordSummary) -> bool:
        """Whether a record is shown."""
        if self.since_ms is not None and record.at_ms < self.since_ms:
            return False
        if not self.records.admits(record):
            return False
        needle = self.text.lower()
        return not needle or any(needle in text.lower() for text in _searchable(record))


def _searchable(record: RecordSummary) -> Iterator[str]:
    yield from filter(None, (record.workflow_id, record.request_id, record.dead_letter_id))
    if isinstance(record.event, DeadLetterSummary):
        for name, value in record.event.labels.items():
            yield from (name, value)
        yield from (problem.code for problem in record.event.problems)


def seen_ends(ends: Mapping[int, int]) -> SeenEnds:
    """Of the state that a page shows."""
    return tuple(sorted(ends.items()))


def seen_ends_of(texts: Iterable[str]) -> SeenEnds | None:
    """As a form sends them, `3:4711`; None if one is not such a text."""
    found = [_ONE.fullmatch(text) for text in texts]
    pairs = [(int(match[1]), int(match[2])) for match in found if match]
    return tuple(sorted(pairs)) if len(pairs) == len(found) else None
