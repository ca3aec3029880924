"""Numbers as people read them: counts, money, durations, shares; pure."""

from typing import Literal, assert_never

from services.operators.records.money import MICRO, dollars_of
from services.operators.records.within_limits import AMOUNT_MAX, amount

Unit = Literal["count", "ms", "usd"]
MINUTE_MS = 60_000
KEPT_MINUTES = 24 * 60  # of all that is counted by the minute
_DIGITS_MAX = 6  # of a dollar: millionths are the smallest part
_TICK_S_MAX = 600  # longer times are in minutes
CENT = 10_000
_SECOND_MS, _HOUR_MS, _DAY_MS = 1_000, 3_600_000, 86_400_000
_SHORT = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def text_of(value: float, unit: Unit) -> str:
    """In full, for a sentence or a table."""
    match unit:
        case "count":
            return f"{value:,.0f}"
        case "ms":
            return duration(value)
        case "usd":
            return usd(round(value))
        case other:
            assert_never(other)


def tick_text(value: float, unit: Unit) -> str:
    match unit:
        case "count":
            return short(value)
        case "ms":
            return _tick_duration(value) if value else "0"
        case "usd":
            return "$0" if not value else f"${_cents(value / MICRO)}"
        case other:
            assert_never(other)


def usd(micro_usd: int | None) -> str:
    if micro_usd is None:
        return "no limit"
    if micro_usd == 0:
        return "$0"
    micro_usd = amount(micro_usd)
    if micro_usd >= MICRO:
        return f"${micro_usd / MICRO:,.2f}"
    text = dollars_of(micro_usd)
    return text.removesuffix("00") if micro_usd >= CENT else text


def by_caches(saved_micro_usd: int) -> str:
    """What caches saved in all, if they did anything."""
    if not saved_micro_usd:
        return ""
    if saved_micro_usd > 0:
        return f"caches saved {usd(saved_micro_usd)}"
    return f"caches cost {usd(-saved_micro_usd)} more than they saved"


def short(value: float) -> str:
    """A number in few characters, such as 1.2k."""
    rounded = float(f"{value:.3g}")
    for size, unit in _SHORT:
        if rounded >= size:
            return f"{rounded / size:.3g}{unit}"
    return f"{value:g}"


def bytes_text(count: float) -> str:
    """A size, in units of 1,024."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 10 else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} TiB"


def duration(ms: float | None) -> str:
    """A time span, with as much precision as matters."""
    if ms is None:
        return "–"
    ms = min(ms, AMOUNT_MAX)
    if ms < _SECOND_MS:
        return f"{ms:.0f} ms"
    if ms < 10 * _SECOND_MS:
        return f"{ms / _SECOND_MS:.1f} s"
    if ms < MINUTE_MS:
        return f"{ms / _SECOND_MS:.0f} s"
    for size, unit, below, smaller in (
        (_DAY_MS, "d", _HOUR_MS, "h"),
        (_HOUR_MS, "h", MINUTE_MS, "min"),
        (MINUTE_MS, "min", _SECOND_MS, "s"),
    ):
        if ms >= size:
            rest = int(ms % size // below)
            return f"{int(ms // size)} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{ms:.0f} ms"


def share(part: float, whole: float) -> str:
    """A part of a whole, in percent."""
    if not whole:
        return "–"
    percent = 100 * part / whole
    return "< 0.1 %" if 0 < percent < 0.1 else f"{percent:.1f} %"


def _tick_duration(ms: float) -> str:
    """In one unit, since an axis has little room."""
    if ms < _TICK_S_MAX * _SECOND_MS:
        text = duration(ms) if ms < MINUTE_MS else f"{ms / _SECOND_MS:.0f} s"
        return text.replace(".0 ", " ")
    size, unit = (MINUTE_MS, "min") if ms < 2 * _HOUR_MS else (_HOUR_MS, "h")
    return f"{ms / size:.1f} {unit}".replace(".0 ", " ")


def _cents(dollars: float) -> str:
    """With two places where there are cents, and as many as it takes below one."""
    if dollars >= 1:
        return f"{dollars:,.2f}".removesuffix(".00")
    if dollars >= 0.1:
        return f"{dollars:.2f}"
    return f"{dollars:.{_DIGITS_MAX}f}".rstrip("0")
