"""A comparison as rows of tables, for its page and for a terminal; pure."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from services.console.views.shares import Share, shares
from services.console.views.units import duration, usd
from services.operators.comparisons.intervals import Mean, Proportion
from services.operators.comparisons.report import ComparisonReport


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
        yield MeasureRow(head, _share_text(getattr(one, head)), _share_text(getattr(other, head)))
    yield MeasureRow("equal answers", "", _share_text(report.equal))
    for head, found, text in (
        ("cost", "micro_usd", lambda value: usd(round(value))),
        ("tokens", "tokens", lambda value: f"{value:,.0f}"),
        ("latency", "duration_ms", duration),
    ):
        yield MeasureRow(
            head, _mean_text(getattr(one, found), text), _mean_text(getattr(other, found), text)
        )
    if report.judged is not None:
        for verdict in ("better", "equal", "worse", "undecided"):
            share = getattr(report.judged, verdict)
            yield MeasureRow(f"judged {verdict}", "", _share_text(share))
        yield MeasureRow("judged for the one shown first", "", _share_text(report.judged.first))


def member_rows(report: ComparisonReport) -> Iterator[MemberRow]:
    """Those that agree least come first."""
    for path, share in report.fields.items():
        yield MemberRow(path, _share_text(share), share.of, agreement_bar(share))


def agreement_bar(share: Proportion) -> tuple[Share, ...]:
    differ = share.of - share.hits
    return shares([("answered", "equal", share.hits, None), ("lost", "differ", differ, None)])


def _share_text(share: Proportion) -> str:
    """Such as `97.5 % (94.3 % to 98.9 %)`."""
    if share.value is None:
        return "–"
    low, high = share.interval
    return f"{share.value:.1%} ({low:.1%} to {high:.1%})".replace("%", " %")


def _mean_text(mean: Mean, text: Callable[[float], str]) -> str:
    """The mean, and how far it may be off."""
    if mean.value is None:
        return "–"
    return text(mean.value) if mean.interval is None else f"{text(mean.value)} ± {text(mean.half)}"
