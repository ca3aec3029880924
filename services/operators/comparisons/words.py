"""Shares and means of comparisons in words, with their intervals; pure."""

from collections.abc import Callable

from services.operators.comparisons.intervals import Mean, Proportion


def share_text(share: Proportion) -> str:
    """Such as `97.5 % (94.3 % to 98.9 %)`."""
    if share.value is None:
        return "–"
    low, high = share.interval
    return f"{share.value:.1%} ({low:.1%} to {high:.1%})".replace("%", " %")


def mean_text(mean: Mean, text: Callable[[float], str]) -> str:
    """The mean, and how far it may be off."""
    if mean.value is None:
        return "–"
    return text(mean.value) if mean.interval is None else f"{text(mean.value)} ± {text(mean.half)}"
