"""How much of an account's budget is spent, as bars that fill; pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from answerbus.budget import AccountState
from answerbus.dead_letter import DeadLetter
from answerbus.outcome import Refusal, Result, RetryRequest, UnvalidatedResult
from answerbus.step import Step
from services.console.views.units import usd
from services.operators.timeline.entry import TimelineEntry

_WITH_ACCOUNT = (Result, UnvalidatedResult, Refusal, DeadLetter, RetryRequest, Step)


@dataclass(frozen=True, slots=True)
class Gauge:
    """How much of an account's limit is spent; no limit, no `percent`."""

    name: str
    text: str
    percent: float | None


def gauges(entries: Iterable[TimelineEntry]) -> tuple[Gauge, ...]:
    """Of the account that the newest event with one shows."""
    state: AccountState | None = None
    for entry in entries:
        event = entry.seen.event
        if isinstance(event, _WITH_ACCOUNT):
            state = event.account or state
    if state is None:
        return ()
    return tuple(_budget(state))


def _budget(state: AccountState) -> Iterable[Gauge]:
    spent, limit = state.spent, state.limit
    rows: Mapping[str, tuple[int, int | None]] = {
        "attempts": (spent.attempts, limit.attempts),
        "tokens": (spent.tokens, limit.tokens),
        "money": (spent.micro_usd, limit.micro_usd),
    }
    for name, (used, most) in rows.items():
        show = usd if name == "money" else "{:,}".format
        text = f"{show(used)} of {show(most)}" if most is not None else f"{show(used)}, no limit"
        percent = None if most is None else 100.0 if used >= most else 100 * used / most
        yield Gauge(name, text, percent)
