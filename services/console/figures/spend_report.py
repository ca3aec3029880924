"""All spending of a window, for `/money.json` of the console and `answerbus spend`; pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from services.console.figures.spend_rows import (
    NameRow,
    SpendRow,
    amounts_of,
    by_contract,
    by_label,
    by_model,
    by_workflow,
)
from services.console.state.board import Board, Window
from services.console.state.spend_table import Amounts
from services.operators.dead_letters.moment import as_text

LINES_MAX = 1_000  # of each list


@dataclass(frozen=True, slots=True)
class SpendLine:
    """Totals of calls under one name; lower bounds if not `exact`."""

    name: str
    used_micro_usd: int
    charged_micro_usd: int
    calls: int
    tokens: int
    exact: bool


@dataclass(frozen=True, slots=True)
class SpendReport:
    """Each list adds up to `total`, and the values of each label do.

    Without caches, all calls together would have cost `cache_saved_micro_usd` more.
    """

    begins: str
    ends: str
    total: SpendLine
    cache_saved_micro_usd: int
    contracts: Sequence[SpendLine]
    models: Sequence[SpendLine]
    labels: Mapping[str, Sequence[SpendLine]]
    workflows: Sequence[SpendLine]


def spend_report(board: Board, window: Window, most: int) -> SpendReport:
    """At most so many workflows, and values of each label, beside the others together."""
    labels = board.schema_labels
    return SpendReport(
        begins=as_text(window.first_ms),
        ends=as_text(window.end_ms),
        total=_line("total", amounts_of(window.total.spent)),
        cache_saved_micro_usd=window.total.spent.cache_saved_micro_usd,
        contracts=[_of_spend(row) for row in by_contract(window.total, labels)],
        models=[_of_spend(row) for row in by_model(window.total)],
        labels={
            table.name: [_of_name(row) for row in table.rows]
            for table in by_label(board, window, most)
        },
        workflows=[_of_name(row) for row in by_workflow(board, window, most)],
    )


def _of_spend(row: SpendRow) -> SpendLine:
    return _line(row.name, amounts_of(row.spent))


def _of_name(row: NameRow) -> SpendLine:
    return _line(row.name, row.amounts, exact=row.is_exact)


def _line(name: str, amounts: Amounts, *, exact: bool = True) -> SpendLine:
    return SpendLine(
        name, amounts.micro_usd, amounts.charged_micro_usd, amounts.calls, amounts.tokens, exact
    )
