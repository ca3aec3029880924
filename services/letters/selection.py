"""Which letters are meant."""

from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter

from services.letters.groups import Key
from services.letters.letter import Letter, Status


@dataclass(frozen=True, slots=True)
class Selection:
    """What must hold of a letter, all of it; times are in ms since 1970, `until_ms` is excluded.

    Each entry of `where` is a key with the value that is wanted, None for letters without one. A
    contract may be given without its version. `ids` empty is any.
    """

    where: tuple[tuple[Key, str | None], ...] = ()
    ids: frozenset[str] = frozenset()
    since_ms: int | None = None
    until_ms: int | None = None
    statuses: frozenset[Status] = frozenset({"open"})
    limit: int | None = None

    @property
    def needs_models(self) -> bool:
        """Whether the attempts must be read, which alone say who was asked."""
        return any(key.kind == "model" for key, _ in self.where)

    def admits(self, letter: Letter) -> bool:
        """Whether the letter is meant, leaving the limit aside."""
        return (
            letter.status in self.statuses
            and (not self.ids or letter.id in self.ids)
            and (self.since_ms is None or letter.at_ms >= self.since_ms)
            and (self.until_ms is None or letter.at_ms < self.until_ms)
            and all(_meets(letter, key, wanted) for key, wanted in self.where)
        )


def select(letters: Iterable[Letter], selection: Selection) -> list[Letter]:
    """The letters that are meant, oldest first; the limit keeps the oldest."""
    chosen = sorted(
        filter(selection.admits, letters),
        key=attrgetter("at_ms", "place.partition", "place.offset"),
    )
    return chosen[: selection.limit]


def _meets(letter: Letter, key: Key, wanted: str | None) -> bool:
    found = key.read(letter)
    if key.kind == "contract" and found is not None and wanted is not None:
        return wanted in (found, found.rpartition(".v")[0])
    return found == wanted
