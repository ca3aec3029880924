"""Letters counted by what they have in common."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from services.letters.letter import Funds, Letter

KEYS = ("cause", "failure", "contract", "profile", "model", "workflow", "round", "status")
LABEL = "label:"


@dataclass(frozen=True, slots=True)
class Key:
    """What letters are grouped and chosen by; `label` names one where the kind is `label:`."""

    kind: str
    label: str = ""

    def __str__(self) -> str:
        return self.kind + self.label

    def of(self, letter: Letter) -> str | None:
        """The letter's value; None where it has none."""
        match self.kind:
            case "cause":
                return letter.cause
            case "failure":
                return letter.failure
            case "contract":
                return letter.schema
            case "profile":
                return letter.profile
            case "model":
                return letter.model
            case "workflow":
                return letter.workflow_id
            case "round":
                return str(letter.round)
            case "status":
                return letter.status
            case _:
                return next((text for name, text in letter.labels if name == self.label), None)


def key_of(text: str) -> Key | None:
    """`cause`, `label:tenant` and so on; None for anything else."""
    if text in KEYS:
        return Key(text)
    label = text.removeprefix(LABEL)
    return Key(LABEL, label) if label and label != text else None


@dataclass(frozen=True, slots=True)
class Group:
    """Letters with the same values; `sample` is the id of the newest, times are in ms since 1970.

    `spent` is what the accounts behind them had spent, each account counted once.
    """

    values: tuple[str | None, ...]
    count: int
    oldest_ms: int
    newest_ms: int
    sample: str
    spent: Funds


def group(letters: Iterable[Letter], keys: Sequence[Key]) -> list[Group]:
    """The groups, largest first."""
    tallies: dict[tuple[str | None, ...], _Tally] = {}
    for letter in letters:
        values = tuple([key.of(letter) for key in keys])
        tallies.setdefault(values, _Tally(letter, letter)).add(letter)
    groups = [tally.group(values) for values, tally in tallies.items()]
    return sorted(groups, key=lambda found: (-found.count, [value or "" for value in found.values]))


@dataclass(slots=True)
class _Tally:
    oldest: Letter
    newest: Letter
    count: int = 0
    spent: dict[str, Funds] = field(default_factory=dict)

    def add(self, letter: Letter) -> None:
        self.count += 1
        if letter.at_ms < self.oldest.at_ms:
            self.oldest = letter
        if letter.at_ms > self.newest.at_ms:
            self.newest = letter
        if letter.account_id is None or letter.spent is None:
            return
        known = self.spent.get(letter.account_id)
        if known is None or letter.spent.attempts >= known.attempts:
            self.spent[letter.account_id] = letter.spent

    def group(self, values: tuple[str | None, ...]) -> Group:
        spent = self.spent.values()
        return Group(
            values,
            self.count,
            self.oldest.at_ms,
            self.newest.at_ms,
            self.newest.id,
            Funds(
                sum(funds.attempts for funds in spent),
                sum(funds.tokens or 0 for funds in spent),
                sum(funds.micro_usd or 0 for funds in spent),
            ),
        )
