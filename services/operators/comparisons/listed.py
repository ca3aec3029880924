"""The comparisons that the topic holds, as lists need them; pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from answerbus.compared import Compared
from services.operators.comparisons.report import Comparison

COMPARISONS_MAX = 100  # listed: those that asked last


@dataclass(slots=True)
class ListedComparison:
    """All records with its name; times are Kafka's, since 1970."""

    name: str
    profile: str | None
    began_ms: int
    last_ms: int
    folded: Comparison = field(default_factory=Comparison)


class ComparisonList:
    """A fold of the topic; of what is too much, the comparisons that asked first are left out."""

    def __init__(self) -> None:
        self._found: dict[str, ListedComparison] = {}  # the last that asked is the last
        self.is_cut = False

    def take(self, compared: Compared, at_ms: int) -> None:
        """Count one record."""
        name = compared.comparison
        found = self._found.pop(name, None)
        if found is None:
            found = ListedComparison(name, compared.again.profile, at_ms, at_ms)
        self._found[name] = found
        found.last_ms = at_ms
        found.folded.take(compared)
        if len(self._found) > COMPARISONS_MAX:
            del self._found[next(iter(self._found))]
            self.is_cut = True

    def newest(self) -> Sequence[ListedComparison]:
        """The one that asked last comes first."""
        return list(self._found.values())[::-1]
