"""Which dead letters an address or a form means, and back again; pure."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from urllib.parse import urlencode

from services.operators.dead_letters.groups import KEYS, LABEL, Key, key_of
from services.operators.dead_letters.moment import EXAMPLES, as_text, moment_ms
from services.operators.dead_letters.row import STATUSES, Status
from services.operators.dead_letters.selection import Selection

NONE = "none"  # the parameter that names a key which dead letters must not have
ANY = "any"  # the status that leaves it open
TIMES = ("since", "until")
NAMES = (*KEYS, NONE, "id", *TIMES)
Pairs = Iterable[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class FilterFault:
    """Why an address does not say which dead letters are meant."""

    reason: str


@dataclass(frozen=True, slots=True)
class DeadLetterFilters:
    """The filters of a page: values by key (None: without one), a status, times, and ids."""

    where: tuple[tuple[Key, str | None], ...] = ()
    status: Status | None = "open"
    ids: frozenset[str] = frozenset()
    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def selection(self) -> Selection:
        """As the read model of dead letters takes it."""
        statuses = frozenset(STATUSES if self.status is None else (self.status,))
        return Selection(self.where, self.ids, self.since_ms, self.until_ms, statuses)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """As the fields of a form, without the ids."""
        found = [
            (NONE, str(key)) if value is None else (str(key), value) for key, value in self.where
        ]
        times = zip(TIMES, (self.since_ms, self.until_ms), strict=True)
        told = [(name, as_text(at_ms)) for name, at_ms in times if at_ms is not None]
        return [*found, *told, ("status", self.status or ANY)]

    @property
    def query(self) -> str:
        """As the end of an address."""
        return urlencode(self.pairs)

    def narrowed(self, keys: Sequence[Key], values: Sequence[str | None]) -> "DeadLetterFilters":
        """To a group of these."""
        where = (*self.where, *zip(keys, values, strict=True))
        return DeadLetterFilters(where, self.status, self.ids, self.since_ms, self.until_ms)


def filters_of(
    pairs: Pairs, now_ms: int = 0, beside: Collection[str] = ()
) -> DeadLetterFilters | FilterFault:
    """What the parameters say; `beside` are the names of those that are no filters.

    What is no filter is a fault: left out, it would make "these" into "all".
    """
    where: list[tuple[Key, str | None]] = []
    status: Status | None = "open"
    ids, times = set(), dict[str, int]()
    for name, value in pairs:
        if name in beside:
            continue
        if fault := _fault(name, value, beside):
            return fault
        if name == "id":
            ids.add(value)
        elif name == "status":
            status = next((one for one in STATUSES if one == value), None)
        elif name in TIMES:
            times[name] = moment_ms(value, now_ms) or 0
        elif key := key_of(value if name == NONE else name):
            where.append((key, None if name == NONE else value))  # labels may be empty
    since_ms, until_ms = (times.get(name) for name in TIMES)
    return DeadLetterFilters(
        tuple(dict.fromkeys(where)), status, frozenset(ids), since_ms, until_ms
    )


def _fault(name: str, value: str, beside: Collection[str]) -> FilterFault | None:
    if name not in NAMES and key_of(name) is None:
        return FilterFault(_unknown(name, (*NAMES, *beside)))
    if name == "status" and value not in (*STATUSES, ANY):
        return FilterFault(_none_of(name, value, (*STATUSES, ANY)))
    if name in TIMES and moment_ms(value, 0) is None:
        return FilterFault(f"{name}={value!r} is no time, such as {EXAMPLES}.")
    if name == NONE and key_of(value) is None:
        return FilterFault(_none_of(name, value, (*KEYS, f"{LABEL}NAME")))
    return None


def _unknown(name: str, known: Collection[str]) -> str:
    close = get_close_matches(name.lower(), known, n=1)
    meant = f"; did you mean {close[0]!r}?" if close else "."
    listed = ", ".join((*NAMES, f"{LABEL}NAME"))
    return f"There is no filter {name!r}{meant} There are: {listed}."


def _none_of(name: str, value: str, known: Collection[str]) -> str:
    return f"{name}={value!r} is none of {', '.join(known)}."
