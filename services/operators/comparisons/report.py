"""The report of a comparison: shares and means with intervals, and required bounds; pure."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from answerbus.compared import Compared, ComparedAnswer, Judged, JudgedVerdict
from services.operators.comparisons.intervals import Mean, Proportion, Sums
from services.operators.records.within_limits import amount

FIELDS_SHOWN_MAX = 500  # members of all answers together


@dataclass(frozen=True, slots=True)
class SideReport:
    """One of the two sides, over all questions that were asked."""

    valid: Proportion
    refused: Proportion
    invalid: Proportion
    failed: Proportion
    micro_usd: Mean
    tokens: Mean
    duration_ms: Mean


@dataclass(frozen=True, slots=True)
class JudgedReport:
    """What a judge said of new answers: shares of its verdicts, and of equal answers, as `equal`.

    `first` is how often it favoured the answer that it was shown first, where it favoured one: half
    of the time, unless it goes by position.
    """

    better: Proportion
    equal: Proportion
    worse: Proportion
    undecided: Proportion
    first: Proportion


@dataclass(frozen=True, slots=True)
class ComparisonReport:
    """`equal` is of the questions that both answered; `fields` are by their path in answers.

    `judged` is there where a judge was asked. `charged_micro_usd` is what all of it cost.
    """

    asked: int
    recorded: SideReport
    again: SideReport
    equal: Proportion
    fields: Mapping[str, Proportion]
    judged: JudgedReport | None
    charged_micro_usd: int


@dataclass(slots=True)
class _Side:
    outcomes: Counter[str] = field(default_factory=Counter)
    micro_usd: Sums = field(default_factory=Sums)
    tokens: Sums = field(default_factory=Sums)
    duration_ms: Sums = field(default_factory=Sums)

    def take(self, answer: ComparedAnswer) -> None:
        self.outcomes[answer.outcome] += 1
        usage = answer.usage
        if usage.micro_usd is not None:
            self.micro_usd.take(amount(usage.micro_usd))
        if usage.input_tokens is not None and usage.output_tokens is not None:
            self.tokens.take(amount(usage.input_tokens + usage.output_tokens))
        if answer.duration_ms is not None:
            self.duration_ms.take(amount(answer.duration_ms))

    def report(self, asked: int) -> SideReport:
        return SideReport(
            Proportion(self.outcomes["answered"], asked),
            Proportion(self.outcomes["refused"], asked),
            Proportion(self.outcomes["invalid"], asked),
            Proportion(self.outcomes["failed"], asked),
            self.micro_usd.mean,
            self.tokens.mean,
            self.duration_ms.mean,
        )


@dataclass(slots=True)
class _Verdicts:
    said: Counter[JudgedVerdict] = field(default_factory=Counter)
    first: int = 0

    def take(self, judged: Judged) -> None:
        """Count a verdict, if it is one."""
        if judged.verdict is None:
            return
        self.said[judged.verdict] += 1
        self.first += judged.verdict == ("better" if judged.swapped else "worse")

    def report(self, equal: int) -> JudgedReport | None:
        """`equal` answers needed no judge."""
        if not (judged := self.said.total()):
            return None
        said, of = self.said, judged + equal
        return JudgedReport(
            Proportion(said["better"], of),
            Proportion(said["equal"] + equal, of),
            Proportion(said["worse"], of),
            Proportion(said["undecided"], of),
            Proportion(self.first, said["better"] + said["worse"]),
        )


@dataclass(slots=True)
class Comparison:
    """A fold of what was compared."""

    asked: int = 0
    _recorded: _Side = field(default_factory=_Side)
    _again: _Side = field(default_factory=_Side)
    _verdicts: _Verdicts = field(default_factory=_Verdicts)
    _equal: int = 0
    _both: int = 0
    _fields: dict[str, list[int]] = field(default_factory=dict)  # equal ones, and all
    _charged: int = 0

    def take(self, compared: Compared) -> None:
        self.asked += 1
        self._recorded.take(compared.recorded)
        self._again.take(compared.again)
        self._charged += amount(compared.charged_micro_usd)
        if compared.judged is not None:
            self._verdicts.take(compared.judged)
        if compared.equal is None:
            return
        self._both += 1
        self._equal += compared.equal
        for one in compared.fields:
            if one.path in self._fields or len(self._fields) < FIELDS_SHOWN_MAX:
                counts = self._fields.setdefault(one.path, [0, 0])
                counts[0] += one.equal
                counts[1] += 1

    def report(self) -> ComparisonReport:
        """The members that agree least come first."""
        fields = {path: Proportion(*counts) for path, counts in self._fields.items()}
        ranked = sorted(fields.items(), key=lambda pair: (pair[1].value or 0, pair[0]))
        return ComparisonReport(
            self.asked,
            self._recorded.report(self.asked),
            self._again.report(self.asked),
            Proportion(self._equal, self._both),
            dict(ranked),
            self._verdicts.report(self._equal),
            self._charged,
        )


@dataclass(frozen=True, slots=True)
class Threshold:
    """A bound such as `valid>=0.98`; of ratios, such as `cost<=0.5`, of the recorded mean."""

    text: str
    measure: str
    is_least: bool
    bound: float

    def is_met(self, report: ComparisonReport) -> bool:
        """Not where there is nothing to measure."""
        value = MEASURES[self.measure](report)
        if value is None:
            return False
        return value >= self.bound if self.is_least else value <= self.bound


_BAR = re.compile(r"([a-z]+)(>=|<=)(\d{1,6}(?:\.\d{1,6})?)", re.ASCII)


def threshold_of(text: str) -> Threshold | None:
    """None for what is not a bar."""
    found = _BAR.fullmatch(text.replace(" ", ""))
    if found is None or found[1] not in MEASURES:
        return None
    return Threshold(text, found[1], found[2] == ">=", float(found[3]))


def _ratio(again: Mean, recorded: Mean) -> float | None:
    if again.value is None or not recorded.value:
        return None
    return again.value / recorded.value


def _judged_or_equal(
    found: ComparisonReport, share: Callable[[JudgedReport], Proportion]
) -> float | None:
    """Where all answers are equal, no judge is asked: none is better, and none is worse."""
    if found.judged is not None:
        return share(found.judged).value
    return 0.0 if found.equal.value == 1 else None


MEASURES: Mapping[str, Callable[[ComparisonReport], float | None]] = MappingProxyType(
    {
        "valid": lambda found: found.again.valid.value,
        "equal": lambda found: found.equal.value,
        "refused": lambda found: found.again.refused.value,
        "failed": lambda found: found.again.failed.value,
        "better": lambda found: _judged_or_equal(found, lambda judged: judged.better),
        "worse": lambda found: _judged_or_equal(found, lambda judged: judged.worse),
        "cost": lambda found: _ratio(found.again.micro_usd, found.recorded.micro_usd),
        "tokens": lambda found: _ratio(found.again.tokens, found.recorded.tokens),
        "latency": lambda found: _ratio(found.again.duration_ms, found.recorded.duration_ms),
    }
)


def as_data(report: ComparisonReport, bars: Sequence[Threshold]) -> Mapping[str, object]:
    """For programs: shares between 0 and 1, money in millionths of a dollar."""
    return {
        "asked": report.asked,
        "recorded": _side(report.recorded),
        "again": _side(report.again),
        "equal": _share(report.equal),
        "fields": {path: _share(share) for path, share in report.fields.items()},
        "judged": report.judged and _judged(report.judged),
        "charged_micro_usd": report.charged_micro_usd,
        "bars": {bar.text: bar.is_met(report) for bar in bars},
    }


def _side(side: SideReport) -> Mapping[str, object]:
    shares = {
        name: _share(getattr(side, name)) for name in ("valid", "refused", "invalid", "failed")
    }
    means = {name: _mean(getattr(side, name)) for name in ("micro_usd", "tokens", "duration_ms")}
    return {**shares, **means}


def _judged(report: JudgedReport) -> Mapping[str, object]:
    names = ("better", "equal", "worse", "undecided", "first")
    return {name: _share(getattr(report, name)) for name in names}


def _share(share: Proportion) -> Mapping[str, object]:
    return {
        "hits": share.hits,
        "of": share.of,
        "share": share.value,
        "interval": list(share.interval),
    }


def _mean(mean: Mean) -> Mapping[str, object]:
    interval = mean.interval
    return {
        "mean": mean.value,
        "of": mean.of,
        "interval": None if interval is None else list(interval),
    }
