"""A comparison as rows of tables, for its page and for a terminal; pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from services.console.views.shares import Share, shares
from services.console.views.units import duration, usd
from services.operators.comparisons.intervals import Proportion
from services.operators.comparisons.report import ComparisonReport
from services.operators.comparisons.words import mean_text, share_text


@dataclass(frozen=True, slots=True)
class MeasureRow:
    """A measure of both sides, with its intervals."""

    head: str
    recorded: str
    again: str


@dataclass(frozen=True, slots=True)
class MemberRow:
    """How often a member of the answers is the same in both."""

    path: str
    equal: str
    of: int
    bar: tuple[Share, ...]


def measure_rows(report: ComparisonReport) -> Iterator[MeasureRow]:
    one, other = report.recorded, report.again
    for head in ("valid", "refused", "invalid", "failed"):
        yield MeasureRow(head, share_text(getattr(one, head)), share_text(getattr(other, head)))
    yield MeasureRow("equal answers", "", share_text(report.equal))
    for head, found, text in (
        ("cost", "micro_usd", lambda value: usd(round(value))),
        ("tokens", "tokens", lambda value: f"{value:,.0f}"),
        ("latency", "duration_ms", duration),
    ):
        yield MeasureRow(
            head, mean_text(getattr(one, found), text), mean_text(getattr(other, found), text)
        )
    if report.judged is not None:
        for verdict in ("better", "equal", "worse", "undecided"):
            share = getattr(report.judged, verdict)
            yield MeasureRow(f"judged {verdict}", "", share_text(share))
        yield MeasureRow("judged for the one shown first", "", share_text(report.judged.first))


def member_rows(report: ComparisonReport) -> Iterator[MemberRow]:
    """Those that agree least come first."""
    for path, share in report.fields.items():
        yield MemberRow(path, share_text(share), share.of, agreement_bar(share))


def agreement_bar(share: Proportion) -> tuple[Share, ...]:
    differ = share.of - share.hits
    return shares([("answered", "equal", share.hits, None), ("lost", "differ", differ, None)])
