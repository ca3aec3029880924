"""When to leave a provider alone, and for how long: it delays calls and never fails them."""

from dataclasses import dataclass

from services.worker.core.attempt.reply import (
    Answered,
    NoAnswer,
    Refused,
    Rejected,
    Reply,
    Throttled,
    TimedOut,
    Truncated,
    Unavailable,
)
from services.worker.core.limits.profile_problem import ProblemKind, ProfileProblem
from services.worker.core.limits.response_watchdog import RECENTLY_S

FAILURES_BEFORE_OPEN = 5  # in a row, of calls that ran into the provider's own faults
PAUSE_FIRST_S = 1.0
PAUSE_FACTOR = 2.0
PAUSE_MAX_S = 15.0  # a probe costs little, and everybody waits for it
PROVIDER_PAUSE_MAX_S = 600.0  # a provider that names a longer pause is probed all the same
SETUP_FAULT_PAUSE_S = 15.0  # a broken set-up is probed this often
SHORT_PAUSE_S = 1.0  # who asks for less paces us, and is not away
RAMP_FACTOR = 1.5  # times what a refusal takes: a probe that lasts longer was let in
RAMP_S_MIN, RAMP_S_MAX = 0.1, 0.5
RAMP_STEPS_MAX = 10  # then a thousand probes are out, which is as good as on
LATELY_S = 60.0


@dataclass(slots=True)
class Breaker:
    """Off from a failure until a probe is served; times are seconds on one clock.

    A provider that was away is probed by one call at a time. One that had too much is asked by
    twice as many after each moment without a refusal, so that slow answers keep no request waiting.
    `served_since` is when the last began of the calls that were served.
    """

    is_open: bool = False
    setup_fault: str | None = None
    served_since: float = float("-inf")
    _failures: int = 0
    _pause_until: float = 0.0
    _was_throttled: bool = False
    _was_forbidden: bool = False
    _ramp_s: float = RAMP_S_MAX
    _open_since: float = 0.0
    _closed_at: float = float("-inf")
    _last_failure: Reply | None = None
    _failed_at: float = 0.0

    def problem(self, now: float) -> ProfileProblem | None:
        """Why it is off; None if it is not tried, or only asks for time."""
        text = self._fault(now)
        if text is None:
            return None
        kind: ProblemKind = "rejected" if self.setup_fault else "failing"
        return ProfileProblem(kind, text, now - self._open_since if self.is_open else None)

    def _fault(self, now: float) -> str | None:
        if self.setup_fault:
            return self.setup_fault
        if not self.is_open or now - self._failed_at > RECENTLY_S:
            return None
        match self._last_failure:
            case Unavailable(status=int(status)):
                return f"the provider answers with status {status}"
            case Unavailable():
                return "the provider breaks connections"
            case TimedOut(after_s):
                return f"the provider did not answer within {after_s:g} s, several times in a row"
            case _:
                return None

    @property
    def is_away(self) -> bool:
        """Whether it is off, and not for being asked too often."""
        return self.is_open and not self._was_throttled

    @property
    def throttled_since(self) -> float | None:
        """Since when it is off for being asked too often."""
        return self._open_since if self.is_open and self._was_throttled else None

    def pause_s(self, now: float) -> float:
        """Until a call is allowed; 0 when one is."""
        return max(self._pause_until - now, 0.0)

    def probes(self, now: float) -> int:
        """How many may be out at once, once the pause is over, while it is off."""
        if not self._was_throttled:
            return 1
        steps = int(max(now - self._pause_until, 0.0) / self._ramp_s)
        return 1 << min(steps, RAMP_STEPS_MAX)

    def more_probes_in_s(self, now: float) -> float:
        """Until `probes` grows by itself."""
        if not self._was_throttled:
            return float("inf")
        return self._ramp_s - max(now - self._pause_until, 0.0) % self._ramp_s

    def was_open_lately(self, now: float) -> bool:
        """Whether it has closed only lately: refused again, a provider needs more than a pause."""
        return now - self._closed_at < LATELY_S

    def report(self, reply: Reply, now: float, duration_s: float, *, is_probe: bool) -> None:
        """Learn from a reply.

        While it is off, what a call that began before comes to proves nothing: only a probe that is
        served, or refused for its own sake, lets others through again.
        """
        proves = is_probe or not self.is_open
        self._last_failure, self._failed_at = reply, now
        match reply:
            case Answered() | Refused() | Truncated() | NoAnswer():
                self._was_forbidden = False
                self.served_since = max(self.served_since, now - duration_s)
                if proves:
                    self._close(now)
                    self.setup_fault = None
            case Throttled(retry_after_s=pause_s):
                self._ramp_s = min(max(RAMP_FACTOR * duration_s, RAMP_S_MIN), RAMP_S_MAX)
                self._count_throttling(pause_s, now)
            case Rejected(scope="profile", status=403) if not (self.is_open or self._was_forbidden):
                self._was_forbidden = True  # maybe of one request alone: the next call shows it
            case Rejected(scope="profile"):
                self._reject(reply, now)
            case Rejected():
                if proves:
                    self._close(now)
            case Unavailable(ran=False):
                self._fail(now, limit=1)
            case Unavailable() | TimedOut():
                self._fail(now, limit=FAILURES_BEFORE_OPEN)

    def _reject(self, reply: Rejected, now: float) -> None:
        self.setup_fault = f"rejected: status {reply.status}, code {reply.code}"
        if reply.status == 403:
            self._fail(now, limit=1)  # of a few requests, maybe: another is tried soon
        else:
            self._open(SETUP_FAULT_PAUSE_S, now, throttled=False)

    def _count_throttling(self, named_s: float | None, now: float) -> None:
        if named_s is None:
            self._fail(now, limit=1, throttled=True)
            return
        pause_s = min(named_s, PROVIDER_PAUSE_MAX_S)
        if pause_s >= SHORT_PAUSE_S or self.is_open:
            self._open(pause_s, now, throttled=True)
        else:
            self._pause_until = max(self._pause_until, now + pause_s)

    def _fail(self, now: float, limit: int, *, throttled: bool = False) -> None:
        if self.is_open and now < self._pause_until:
            return  # of a call that began before: hundreds of them are one fault, not hundreds
        self._failures += 1
        if self._failures >= limit or self.is_open:
            growth = PAUSE_FACTOR ** min(self._failures - 1, 16)
            self._open(min(PAUSE_FIRST_S * growth, PAUSE_MAX_S), now, throttled=throttled)

    def _close(self, now: float) -> None:
        if self.is_open:
            self._closed_at = now
        self._failures, self.is_open = 0, False

    def _open(self, pause_s: float, now: float, *, throttled: bool) -> None:
        self._was_throttled = throttled
        if not self.is_open:
            self._open_since = now
        self.is_open = True
        self._pause_until = max(self._pause_until, now + pause_s)
