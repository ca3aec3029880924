"""Each contract's requests: their outcomes, durations and cost; pure."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from services.console.figures.dead_letter_links import Span, dead_letters
from services.console.figures.outcome_charts import ENDINGS, ending_counts
from services.console.state.minute import ContractCounts, Minute, SpendCounts
from services.console.state.schema_labels import SchemaLabels
from services.console.views.shares import Share, shares


@dataclass(frozen=True, slots=True)
class ContractRow:
    """One line of the table."""

    label: str
    ended: int
    bar: tuple[Share, ...]
    counts: Mapping[str, int]
    p50_ms: float | None
    p95_ms: float | None
    spent: SpendCounts
    models: tuple[str, ...]


def contract_rows(total: Minute, labels: SchemaLabels, span: Span) -> list[ContractRow]:
    """The most frequent first; a contract that has only been called so far is among them."""
    spent, models = spend_by_contract(total, labels)
    names = {*total.contracts, *spent}
    rows = [
        _row(name, total.contracts.get(name, ContractCounts()), spent[name], models[name], span)
        for name in names
    ]
    return sorted(rows, key=lambda row: (-row.ended, -row.spent.calls, row.label))


def spend_by_contract(
    total: Minute, labels: SchemaLabels
) -> tuple[defaultdict[str, SpendCounts], defaultdict[str, set[str]]]:
    """The cost of calls, and the models called, by contract."""
    spent: defaultdict[str, SpendCounts] = defaultdict(SpendCounts)
    models: defaultdict[str, set[str]] = defaultdict(set)
    for (digest, model), counts in total.spend.items():
        name = labels.of(digest)
        spent[name].add(counts)
        models[name].add(model)
    return spent, models


def _row(
    name: str, counts: ContractCounts, spent: SpendCounts, models: set[str], span: Span
) -> ContractRow:
    ended = ending_counts(counts)
    links = {"dead": dead_letters(span, contract=name)}
    bar = shares([(kind, ENDINGS[kind], count, links.get(kind)) for kind, count in ended.items()])
    return ContractRow(
        name,
        counts.ended,
        bar,
        ended,
        counts.took.quantile_ms(0.5),
        counts.took.quantile_ms(0.95),
        spent,
        tuple(sorted(models)),
    )
