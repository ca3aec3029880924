"""A selection of dead letters."""

from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter

from services.operators.dead_letters.groups import Key
from services.operators.dead_letters.row import DeadLetterRow, Status

_age = attrgetter("at_ms", "place.partition", "place.offset")
TEXT_CHARS_MAX = 1_024  # of a text to look for


@dataclass(frozen=True, slots=True)
class Selection:
    """Conditions on a dead letter, all required; times in ms since 1970, `until_ms` is excluded.

    Each entry of `where` is a key with the wanted value, None for dead letters without one. A
    contract may be given without its version, an inline schema as `inline` or by its name alone.
    `ids` empty is any, and so is `text`, which is in an id, a label or a problem's code, in
    upper or lower case. Ids may be `<id>@<workflow>`; those of several workflows mean all of these.
    `seen` are offsets by partition, if any: what is there or later is not meant, nor is another
    partition.
    """

    where: tuple[tuple[Key, str | None], ...] = ()
    ids: frozenset[str] = frozenset()
    since_ms: int | None = None
    until_ms: int | None = None
    statuses: frozenset[Status] = frozenset({"open"})
    limit: int | None = None
    text: str = ""
    seen: tuple[tuple[int, int], ...] = ()

    @property
    def needs_models(self) -> bool:
        """Whether the attempts must be read, which alone say who was asked."""
        return any(key.kind == "model" for key, _ in self.where)

    def of(self, dead_letters: Iterable[DeadLetterRow]) -> list[DeadLetterRow]:
        """The dead letters that are meant, leaving the limit aside.

        One condition after the other, each over all that is left: 100,000 are chosen from while
        someone waits.
        """
        found = [dead_letter for dead_letter in dead_letters if dead_letter.status in self.statuses]
        if self.ids:
            ids = self.ids
            found = [
                dead_letter
                for dead_letter in found
                if dead_letter.id in ids or dead_letter.key.text in ids
            ]
        if self.since_ms is not None:
            found = [dead_letter for dead_letter in found if dead_letter.at_ms >= self.since_ms]
        if self.until_ms is not None:
            found = [dead_letter for dead_letter in found if dead_letter.at_ms < self.until_ms]
        for key, wanted in self.where:
            getter = key.getter
            fitting = {value for value in set(map(getter, found)) if _fits(key, value, wanted)}
            found = [dead_letter for dead_letter in found if getter(dead_letter) in fitting]
        if self.seen:
            ends = dict(self.seen)
            found = [row for row in found if row.place.offset < ends.get(row.place.partition, 0)]
        return _with_text(found, self.text.lower()) if self.text else found


def select(dead_letters: Iterable[DeadLetterRow], selection: Selection) -> list[DeadLetterRow]:
    """The dead letters that are meant, oldest first; the limit keeps the oldest."""
    return sorted(selection.of(dead_letters), key=_age)[: selection.limit]


def _with_text(dead_letters: list[DeadLetterRow], text: str) -> list[DeadLetterRow]:
    """Those that have it somewhere: each value that many share is looked into once."""
    labels = {
        pairs
        for pairs in {dead_letter.labels for dead_letter in dead_letters}
        if _in_labels(text, pairs)
    }
    shared = {dead_letter.problem for dead_letter in dead_letters} | {
        dead_letter.workflow_id for dead_letter in dead_letters
    }
    fitting = {value for value in shared if value is not None and text in value.lower()}
    return [
        dead_letter
        for dead_letter in dead_letters
        if dead_letter.workflow_id in fitting
        or dead_letter.problem in fitting
        or dead_letter.labels in labels
        or text in (own := dead_letter.id).lower()
        # Its own id begins with that of its request, or it has none.
        or ((asked := dead_letter.request_id) and asked not in own and text in asked.lower())
    ]


def _in_labels(text: str, pairs: tuple[tuple[str, str], ...]) -> bool:
    for name, value in pairs:  # noqa: SIM110 - a generator takes twice as long
        if text in name.lower() or text in value.lower():
            return True
    return False


def _fits(key: Key, found: str | None, wanted: str | None) -> bool:
    if key.kind == "contract" and found and wanted:
        kind, _, name = found.partition(" ")  # such as `inline search`, which metrics call `inline`
        return wanted in (found, found.rpartition(".v")[0], kind, name)
    return found == wanted
