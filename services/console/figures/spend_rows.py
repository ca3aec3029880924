"""Spending by contract, model, label and workflow, and the share of repairs; pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from services.console.figures.contract_rows import spend_by_contract
from services.console.state.board import LOST, OTHERS, Board, Window
from services.console.state.minute import Minute, SpendCounts
from services.console.state.schema_labels import SchemaLabels
from services.console.state.spend_groups import UNLABELLED
from services.console.state.spend_table import Amounts, SpentBy, sum_of
from services.console.views.shares import Share, shares
from services.console.views.units import usd

LABEL_NAMES_SHOWN = 6


@dataclass(frozen=True, slots=True)
class SpendRow:
    """One line; `bar` is first calls and repairs, as parts of the dearest line."""

    name: str
    spent: SpendCounts
    bar: tuple[Share, ...]


@dataclass(frozen=True, slots=True)
class NameRow:
    """Totals of calls of one label or workflow; lower bounds if not `is_exact`.

    `top` is what the dearest one was charged.
    """

    name: str
    amounts: Amounts
    top: int
    is_exact: bool = True

    @property
    def bar(self) -> tuple[Share, ...]:
        """Usage, and charges beyond it; programs do not need it."""
        return name_bar(self.amounts, self.top)


@dataclass(frozen=True, slots=True)
class LabelTable:
    """A label, and all spending by its values: the rows add up to the total."""

    name: str
    rows: Sequence[NameRow]


def by_contract(total: Minute, labels: SchemaLabels) -> list[SpendRow]:
    """Most expensive first."""
    return _rows(spend_by_contract(total, labels)[0])


def by_model(total: Minute) -> list[SpendRow]:
    """Most expensive first."""
    spent: defaultdict[str, SpendCounts] = defaultdict(SpendCounts)
    for (_, model), counts in total.spend.items():
        spent[model].add(counts)
    return _rows(spent)


def amounts_of(spent: SpendCounts) -> Amounts:
    """Those of a window or a line."""
    return Amounts(spent.calls, spent.tokens, spent.micro_usd, spent.charged_micro_usd)


def by_label(board: Board, window: Window, most: int) -> list[LabelTable]:
    """A table for each of the dearest labels, with at most so many values."""
    first, end = window.minutes
    total, lost = amounts_of(window.total.spent), _lost(window.total)
    names = board.label_names.between(first, end)[:LABEL_NAMES_SHOWN]
    pairs = sorted(board.labels.between(first, end), key=lambda row: row.name[0])  # a stable sort
    values = {name: list(found) for name, found in groupby(pairs, key=lambda row: row.name[0])}
    return [_label_table(name, values.get(name.name, []), most, total, lost) for name in names]


def _lost(total: Minute) -> Amounts:
    """Calls whose labels were lost with their worker."""
    return amounts_of(total.spend.get((LOST, LOST), SpendCounts()))


def _label_table(
    label: SpentBy[str],
    values: Sequence[SpentBy[tuple[str, str]]],
    most: int,
    total: Amounts,
    lost: Amounts,
) -> LabelTable:
    """The first values, the others together, calls without the label, and those that were lost.

    Of very many labels, the sum of one may lack what its values have.
    """
    shown = [SpentBy(row.name[1], row.amounts, row.is_whole) for row in values[:most]]
    labelled = Amounts(*map(max, label.amounts, sum_of(row.amounts for row in values)))
    others = labelled.minus(sum_of(row.amounts for row in shown))
    unlabelled = total.minus(labelled).minus(lost)
    rest = [(OTHERS, others), (UNLABELLED, unlabelled), (LOST, lost)]
    return LabelTable(label.name, _name_rows(shown, rest))


def by_workflow(board: Board, window: Window, most: int) -> Sequence[NameRow]:
    """The dearest, and all others together."""
    shown = board.workflows.between(*window.minutes)[:most]
    total = amounts_of(window.total.spent)
    return _name_rows(shown, [(OTHERS, total.minus(sum_of(row.amounts for row in shown)))])


def _name_rows(
    shown: Sequence[SpentBy[str]], rest: Iterable[tuple[str, Amounts]]
) -> Sequence[NameRow]:
    rows = [
        *shown,
        *(SpentBy(name, amounts, is_whole=True) for name, amounts in rest if any(amounts)),
    ]
    top = max((row.amounts.charged_micro_usd for row in shown), default=0)
    return [NameRow(row.name, row.amounts, top, row.is_whole) for row in rows]


def name_bar(amounts: Amounts, top: int) -> tuple[Share, ...]:
    """Usage, and charges beyond it."""
    unused = max(0, amounts.charged_micro_usd - amounts.micro_usd)
    return _of_top([("spend", "used", amounts.micro_usd), ("repairs", "charged only", unused)], top)


def _rows(spent: Mapping[str, SpendCounts]) -> list[SpendRow]:
    ranked = sorted(
        spent.items(),
        key=lambda pair: (-pair[1].charged_micro_usd, -pair[1].micro_usd, -pair[1].calls, pair[0]),
    )
    top = max((counts.micro_usd for counts in spent.values()), default=0)
    return [
        SpendRow(
            name,
            counts,
            _of_top(
                [
                    ("spend", "first calls", counts.micro_usd - counts.repairs_micro_usd),
                    ("repairs", "repairs", counts.repairs_micro_usd),
                ],
                top,
            ),
        )
        for name, counts in ranked
    ]


def _of_top(parts: Iterable[tuple[str, str, int]], top: int) -> tuple[Share, ...]:
    """A bar as long as its share of the dearest one."""
    known = list(parts)
    rest = max(0, top - sum(amount for _, _, amount in known))
    found = shares(
        [*((kind, name, amount, None) for kind, name, amount in known), ("rest", "", rest, None)]
    )
    amounts = {kind: f"{name} {usd(amount)}" for kind, name, amount in known}
    return tuple(
        Share(share.series, share.x, share.width, amounts[share.series])
        for share in found
        if share.series != "rest"
    )
