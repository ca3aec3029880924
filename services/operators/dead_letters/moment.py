"""A time as an operator gives it, `2h` ago, `today` (in UTC) or RFC 3339, in ms; pure."""

import re
from datetime import UTC, datetime

from answerbus.broker_time import EPOCH, milliseconds
from services.operators.records.within_limits import moved

EXAMPLES = "30m, 2h, 3d, today or 2026-11-21T10:00:00Z"
TODAY = "today"
_DAY_MS = 86_400_000
_UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_AGO = re.compile(r"(\d{1,6})([smhd])")


def moment_ms(text: str, now_ms: int) -> int | None:
    """Since 1970, the time of all that is older; None for what is not a time.

    A time without a zone is of UTC.
    """
    if text == TODAY:
        return now_ms - now_ms % _DAY_MS
    ago = _AGO.fullmatch(text)
    if ago:
        return max(0, now_ms - int(ago[1]) * _UNITS_S[ago[2]] * 1000)
    try:
        # A `+` that was not escaped in an address arrives as a space.
        moment = datetime.fromisoformat(text.strip().replace(" ", "+") if "T" in text else text)
        is_naive = moment.tzinfo is None
        in_utc = moment.replace(tzinfo=UTC) if is_naive else moment.astimezone(UTC)
        return max(0, milliseconds(in_utc))
    except (ValueError, OverflowError):
        return None


def as_text(at_ms: int) -> str:
    """A time that `moment_ms` reads as it was, up to the end of the year 9999."""
    return moved(EPOCH, at_ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")
