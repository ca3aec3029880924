"""How long a provider that is being called has not responded."""

from dataclasses import dataclass

RECENTLY_S = 20.0  # since a call that ended without a word; the breaker's probes are no rarer
USUAL = 1 / 8  # weight of one call in what is usual
USUAL_FACTOR = 3.0  # so many usual calls long is no reason to report


@dataclass(slots=True)
class ResponseWatchdog:
    """Times are seconds on one clock. A refusal is a word; a timeout, or no connection, is none."""

    usual_s: float = 0.0  # of a call that was answered
    _since: float | None = None
    _missed_at: float | None = None

    def called(self, now: float, *, others: bool) -> None:
        """A call begins; `others` if more are under way."""
        if self._since is None or not (others or self._tried_lately(now)):
            self._since = now

    def responded(self, now: float, *, others: bool) -> None:
        """The provider said something; `others` if it owes more calls a word."""
        self._since, self._missed_at = now if others else None, None

    def served(self, duration_s: float) -> None:
        """A call took so long, as the provider reported."""
        known = self.usual_s
        self.usual_s = known + (duration_s - known) * USUAL if known else duration_s

    def missed(self, now: float) -> None:
        """A call ended without a word."""
        self._missed_at = now

    def lasts_s(self, now: float, *, calls: bool) -> float:
        """How long calls have been tried in vain; 0 where none is, be it that it asked for time."""
        if self._since is None or not (calls or self._tried_lately(now)):
            return 0.0
        return now - self._since

    def bound_s(self, least_s: float) -> float:
        """When to worry: after `least_s`, and later where calls are usually long."""
        return max(least_s, self.usual_s * USUAL_FACTOR)

    def _tried_lately(self, now: float) -> bool:
        return self._missed_at is not None and now - self._missed_at < RECENTLY_S
