"""The cost of calls in groups, such as contract and profile, over any time; pure."""

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import add, sub
from types import MappingProxyType
from typing import NamedTuple, Self

from answerbus.limits import LABEL_CHARS_MAX
from services.console.state.board import LOST, NONE, OTHERS
from services.console.state.heaviest import Heaviest
from services.console.state.schema_labels import SchemaLabels
from services.operators.records.event_summary import AnswerSummary, AttemptSummary
from services.operators.records.summary import RecordSummary
from services.operators.records.within_limits import amount

GROUPS_KEPT = 5_000  # at most twice as many are held, with names of at most 1,024 characters
KEYS_MAX = 4
LABEL = "label."
UNLABELLED = "(without this label)"
_ABORTED = frozenset({"timed_out", "unavailable", "unknown"})  # failures without a whole reply
_ONE_NUMBER = 0  # all in one minute of Heaviest: a call weighs the same, whenever it was

Names = tuple[str, ...]


class GroupAmounts(NamedTuple):
    """Calls, and what they cost.

    `aborted` calls may have run, and their provider reported no usage; `unknown` ones were lost
    with their worker. Both were charged their worst case.
    """

    calls: int = 0
    aborted: int = 0
    unknown: int = 0
    tokens: int = 0
    used_micro_usd: int = 0
    charged_micro_usd: int = 0

    def plus(self, other: Self) -> "GroupAmounts":
        return GroupAmounts(*map(add, self, other))

    def minus(self, other: Self) -> "GroupAmounts":
        return GroupAmounts(*map(sub, self, other))

    @classmethod
    def of(cls, event: AttemptSummary) -> "GroupAmounts":
        usage, failure = event.usage, event.failure.kind if event.failure else None
        is_unknown = event.outcome == "unknown"
        is_charged = event.charged is not None and event.charged.attempts > 0
        is_reported = usage.input_tokens is not None or usage.output_tokens is not None
        return cls(
            1,
            int(failure in _ABORTED and is_charged and not is_reported and not is_unknown),
            int(is_unknown),
            usage.tokens,
            event.used_micro_usd,
            event.charged_micro_usd,
        )


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group by the values of its keys; lower bounds if not `is_exact`.

    `charged_by_step` is what was charged in each step of the time.
    """

    names: Names
    amounts: GroupAmounts
    charged_by_step: Sequence[int]
    is_exact: bool = True


@dataclass(frozen=True, slots=True)
class KeysFault:
    """Why a text does not say by what to group."""

    reason: str


def keys_of(text: str) -> tuple[str, ...] | KeysFault:
    """The keys of `contract,profile,label.tenant`."""
    keys = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    if len(keys) > KEYS_MAX:
        return KeysFault(f"At most {KEYS_MAX} keys can be grouped by, not {len(keys)}.")
    for key in keys:
        label = key.removeprefix(LABEL) if key.startswith(LABEL) else None
        if label is not None and len(label) > LABEL_CHARS_MAX:
            found = f"this one has {len(label):,}"
            return KeysFault(f"Names of labels have at most {LABEL_CHARS_MAX} characters: {found}.")
        if key not in _VALUES and not label:
            known = ", ".join(KEYS)
            return KeysFault(f"There is no key {key[:64]!r}: there are {known} and {LABEL}NAME.")
    return keys


@dataclass(frozen=True, slots=True)
class Steps:
    """A time from `first_ms` to before `end_ms`, in steps, of which the last may be shorter."""

    first_ms: int
    end_ms: int
    step_ms: int

    @property
    def starts_ms(self) -> Sequence[int]:
        return range(self.first_ms, self.end_ms, self.step_ms)

    def holds(self, at_ms: int) -> bool:
        return self.first_ms <= at_ms < self.end_ms


@dataclass(slots=True)
class _Group:
    amounts: GroupAmounts
    charged: "array[int]"


class SpendGroups:
    """A fold of attempts and outcomes within a time; the dearest groups, and all others as one.

    Contracts are named by outcomes: an attempt has the digest of a schema alone.
    """

    def __init__(self, keys: Sequence[str], steps: Steps, kept: int = GROUPS_KEPT) -> None:
        self.keys, self.steps = keys, steps
        self._read = [_reader(key) for key in keys]
        self._labels = SchemaLabels()
        self._heaviest = Heaviest[Names](kept)
        self._groups: dict[Names, _Group] = {}
        self._others, self._total = self._empty(), self._empty()

    def take(self, record: RecordSummary) -> None:
        match record.event:
            case AnswerSummary() as event:
                self._labels.take(event.answered_schema)
            case AttemptSummary() as event if event.is_call and self.steps.holds(record.at_ms):
                self._count(event, record.at_ms)
            case _:
                pass

    @property
    def total(self) -> GroupRow:
        return GroupRow(("total",), self._total.amounts, self._total.charged)

    def rows(self, most: int = 2 * GROUPS_KEPT) -> list[GroupRow]:
        """The dearest first, and the others last: all add up to the total."""
        named: dict[Names, GroupRow] = {}
        for names, group in self._groups.items():
            row = GroupRow(
                self._named(names), group.amounts, group.charged, self._heaviest.is_whole(names)
            )
            known = named.get(row.names)
            named[row.names] = _together(known, row) if known else row
        ranked = sorted(named.values(), key=_rank)
        rest = ranked[most:]
        others = GroupRow((OTHERS,) * len(self.keys), self._others.amounts, self._others.charged)
        for row in rest:
            others = _together(others, row)
        return [*ranked[:most], *([others] if any(others.amounts) else [])]

    def _empty(self) -> _Group:
        return _Group(GroupAmounts(), array("q", bytes(8 * len(self.steps.starts_ms))))

    def _count(self, event: AttemptSummary, at_ms: int) -> None:
        names = tuple(read(event, at_ms) for read in self._read)
        amounts = GroupAmounts.of(event)
        step = (at_ms - self.steps.first_ms) // self.steps.step_ms
        weight = max(amounts.used_micro_usd, amounts.charged_micro_usd) + 1
        group = self._groups.get(names)
        if group is None:
            group = self._groups[names] = self._empty()
        for counted in (group, self._total):
            counted.amounts = counted.amounts.plus(amounts)
            counted.charged[step] = amount(counted.charged[step] + amounts.charged_micro_usd)
        for lighter, _ in self._heaviest.take(names, weight, _ONE_NUMBER):
            dropped = self._groups.pop(lighter)
            self._others = _Group(
                self._others.amounts.plus(dropped.amounts),
                array("q", map(_sum, self._others.charged, dropped.charged)),
            )

    def _named(self, names: Names) -> Names:
        return tuple(
            self._labels.of(name) if key == "contract" else name
            for key, name in zip(self.keys, names, strict=True)
        )


def _sum(one: int, other: int) -> int:
    return amount(one + other)


def _together(one: GroupRow, other: GroupRow) -> GroupRow:
    return GroupRow(
        one.names,
        one.amounts.plus(other.amounts),
        tuple(map(_sum, one.charged_by_step, other.charged_by_step)),
        one.is_exact and other.is_exact,
    )


def _rank(row: GroupRow) -> tuple[int, int, int, Names]:
    amounts = row.amounts
    return -amounts.charged_micro_usd, -amounts.used_micro_usd, -amounts.calls, row.names


Value = Callable[[AttemptSummary, int], str]


def _contract(event: AttemptSummary, _: int) -> str:
    return event.schema_digest or _missing(event)


def _profile(event: AttemptSummary, _: int) -> str:
    return event.model.profile if event.model else _missing(event)


def _model(event: AttemptSummary, _: int) -> str:
    return event.model.name if event.model else _missing(event)


def _missing(event: AttemptSummary) -> str:
    return LOST if event.outcome == "unknown" else NONE


def _workflow(event: AttemptSummary, _: int) -> str:
    return event.workflow_id


def _outcome(event: AttemptSummary, _: int) -> str:
    return event.outcome


def _day(_: AttemptSummary, at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d}"


_VALUES: Mapping[str, Value] = MappingProxyType(
    {
        "contract": _contract,
        "profile": _profile,
        "model": _model,
        "workflow": _workflow,
        "outcome": _outcome,
        "day": _day,
    }
)
KEYS = tuple(_VALUES)


def _reader(key: str) -> Value:
    if key in _VALUES:
        return _VALUES[key]
    label = key.removeprefix(LABEL)

    def value(event: AttemptSummary, _: int) -> str:
        missing = LOST if event.outcome == "unknown" else UNLABELLED
        return next((text for name, text in event.label_pairs if name == label), missing)

    return value
