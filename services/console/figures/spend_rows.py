"""Spending by contract, model and label, and the share of repairs; pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from services.console.figures.contract_rows import spend_by_contract
from services.console.state.minute import Minute, SpendCounts
from services.console.state.schema_labels import SchemaLabels
from services.console.views.shares import Share, shares
from services.console.views.units import usd


@dataclass(frozen=True, slots=True)
class SpendRow:
    """One line; `bar` is first calls and repairs, as parts of the dearest line."""

    name: str
    spent: SpendCounts
    bar: tuple[Share, ...]


@dataclass(frozen=True, slots=True)
class LabelRow:
    """What the requests with a label have cost."""

    name: str
    value: str
    micro_usd: int
    bar: tuple[Share, ...]


def by_contract(total: Minute, labels: SchemaLabels) -> list[SpendRow]:
    """The dearest first."""
    return _rows(spend_by_contract(total, labels)[0])


def by_model(total: Minute) -> list[SpendRow]:
    """The dearest first."""
    spent: defaultdict[str, SpendCounts] = defaultdict(SpendCounts)
    for (_, model), counts in total.spend.items():
        spent[model].add(counts)
    return _rows(spent)


def by_label(total: Minute) -> list[LabelRow]:
    """The dearest first."""
    found = total.labels.most_common()
    top = max((micro_usd for _, micro_usd in found), default=0)
    return [
        LabelRow(name, value, micro_usd, _of_top([("spend", "spent", micro_usd)], top))
        for (name, value), micro_usd in found
    ]


def _rows(spent: Mapping[str, SpendCounts]) -> list[SpendRow]:
    ranked = sorted(spent.items(), key=lambda pair: (-pair[1].micro_usd, -pair[1].calls, pair[0]))
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
    rest = top - sum(amount for _, _, amount in known)
    found = shares(
        [*((kind, name, amount, None) for kind, name, amount in known), ("rest", "", rest, None)]
    )
    amounts = {kind: f"{name} {usd(amount)}" for kind, name, amount in known}
    return tuple(
        Share(share.series, share.x, share.width, amounts[share.series])
        for share in found
        if share.series != "rest"
    )
