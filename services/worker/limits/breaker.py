"""When to leave a provider alone, and for how long: it delays calls and never fails them."""

from dataclasses import dataclass

from services.worker.core.reply import (
    Answered,
    Refused,
    Rejected,
    Reply,
    Throttled,
    TimedOut,
    Truncated,
    Unavailable,
)

FAILURES_BEFORE_OPEN = 5  # in a row, of calls that ran into the provider's own faults
PAUSE_FIRST_S = 1.0
PAUSE_FACTOR = 2.0
PAUSE_MAX_S = 60.0
PAUSE_TOLD_MAX_S = 600.0  # a provider that names a longer pause is probed all the same
SICK_PAUSE_S = 15.0  # a broken set-up is probed this often


@dataclass(slots=True)
class Breaker:
    """Shut off from a failure until a probe is served; times are seconds on one clock."""

    is_off: bool = False
    sick: str | None = None
    _failures: int = 0
    _off_until: float = 0.0

    def pause_s(self, now: float) -> float:
        """Until a probe may go; 0 when one may."""
        return max(self._off_until - now, 0.0) if self.is_off else 0.0

    def report(self, reply: Reply, now: float, *, is_probe: bool) -> None:
        """Learn from a reply.

        While it is off, what a call that began before comes to proves nothing: only a probe that is
        served, or refused for its own sake, lets others through again.
        """
        proves = is_probe or not self.is_off
        match reply:
            case Answered() | Refused() | Truncated():
                if proves:
                    self._failures, self.is_off, self.sick = 0, False, None
            case Throttled(retry_after_s=told_s) if told_s is not None:
                self._shut_off(min(told_s, PAUSE_TOLD_MAX_S), now)
            case Throttled():
                self._fail(now, limit=1)
            case Rejected(scope="profile"):
                self.sick = f"rejected: status {reply.status}, code {reply.code}"
                self._shut_off(SICK_PAUSE_S, now)
            case Rejected():
                if proves:
                    self._failures, self.is_off = 0, False
            case Unavailable(ran=False):
                self._fail(now, limit=1)
            case Unavailable() | TimedOut():
                self._fail(now, limit=FAILURES_BEFORE_OPEN)

    def _fail(self, now: float, limit: int) -> None:
        if self.is_off and now < self._off_until:
            return  # of a call that began before: hundreds of them are one fault, not hundreds
        self._failures += 1
        if self._failures >= limit or self.is_off:
            growth = PAUSE_FACTOR ** min(self._failures - 1, 16)
            self._shut_off(min(PAUSE_FIRST_S * growth, PAUSE_MAX_S), now)

    def _shut_off(self, pause_s: float, now: float) -> None:
        self.is_off = True
        self._off_until = max(self._off_until, now + pause_s)
