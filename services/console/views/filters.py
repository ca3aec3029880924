"""Which dead letters an address or a form means, and back again; pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from services.operators.dead_letters.groups import Key, key_of
from services.operators.dead_letters.row import STATUSES, Status
from services.operators.dead_letters.selection import Selection

NONE = "none"  # the parameter that names a key which dead letters must not have
Pairs = Iterable[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class DeadLetterFilters:
    """The filters of a page: values by key (None: without one), a status, and ids."""

    where: tuple[tuple[Key, str | None], ...] = ()
    status: Status | None = "open"
    ids: frozenset[str] = frozenset()

    @property
    def selection(self) -> Selection:
        """As the read model of dead letters takes it."""
        statuses = frozenset(STATUSES if self.status is None else (self.status,))
        return Selection(self.where, self.ids, statuses=statuses)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """As the fields of a form, without the ids."""
        found = [
            (NONE, str(key)) if value is None else (str(key), value) for key, value in self.where
        ]
        return [*found, ("status", self.status or "any")]

    @property
    def query(self) -> str:
        """As the end of an address."""
        return urlencode(self.pairs)

    def narrowed(self, keys: Sequence[Key], values: Sequence[str | None]) -> "DeadLetterFilters":
        """To a group of these."""
        return DeadLetterFilters((*self.where, *zip(keys, values, strict=True)), self.status)


def filters_of(pairs: Pairs) -> DeadLetterFilters:
    """What the parameters say; what is no filter is left out."""
    where: list[tuple[Key, str | None]] = []
    status: Status | None = "open"
    ids = set()
    for name, value in pairs:
        if name == "id":
            ids.add(value)
        elif name == "status":
            status = next((one for one in STATUSES if one == value), None)
        elif name == NONE:
            if key := key_of(value):
                where.append((key, None))
        elif key := key_of(name):  # an empty value is one, too: labels may be empty
            where.append((key, value))
    return DeadLetterFilters(tuple(dict.fromkeys(where)), status, frozenset(ids))
