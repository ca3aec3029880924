"""Adapts the number of concurrent calls of a provider: down on rejections or delays, then up."""

from dataclasses import dataclass

FEWER_WHEN_THROTTLED = 0.7
FEWER_WHEN_SLOW = 0.9
SLOW_SHARE_MIN = 1 / 4  # slowness alone, which may be the work's own, goes no lower
MORE_PER_ROUND = 1 / 20  # of the most, for each round of calls that are served
THROTTLED_EVERY_S = 1.0  # a burst of refusals is one
SLOW_FACTOR = 3.0  # of the lately usual duration
RECENT = 1 / 50  # weight of one call in what is recent
USUAL = 1 / 1_000  # and in what is usual
CALLS_BEFORE_JUDGING = 200


@dataclass(slots=True)
class Concurrency:
    """Between 1 and `most`; durations and times in seconds."""

    most: int
    _limit: float = -1.0
    _throttled_at: float = float("-inf")
    _served: int = 0
    _since_slow: int = 0
    _recent_s: float = 0.0
    _usual_s: float = 0.0

    @property
    def limit(self) -> int:
        """How many calls may be in flight."""
        return self.most if self._limit < 0 else max(int(self._limit), 1)

    def set_most(self, most: int) -> None:
        """Another number of calls is allowed; what was learnt of overload stays in proportion."""
        if self._limit >= 0:
            self._limit = max(self._limit * most / self.most, 1.0)
        self.most = most

    def served(self, duration_s: float) -> None:
        """A call came to its end: a little more, unless calls have become slow."""
        self._learn(duration_s)
        limit = float(self.limit) if self._limit < 0 else self._limit
        if self._is_slow():
            self._since_slow += 1
            if self._since_slow >= self.limit:  # once a round
                self._since_slow = 0
                floor = max(self.most * SLOW_SHARE_MIN, 1.0)
                self._limit = min(limit, max(limit * FEWER_WHEN_SLOW, floor))
            return
        self._limit = min(limit + max(self.most * MORE_PER_ROUND, 1.0) / self.limit, self.most)

    def throttled(self, now: float) -> None:
        if now - self._throttled_at < THROTTLED_EVERY_S:
            return
        self._throttled_at = now
        limit = float(self.limit) if self._limit < 0 else self._limit
        self._limit = max(limit * FEWER_WHEN_THROTTLED, 1.0)

    def _learn(self, duration_s: float) -> None:
        self._served += 1
        recent, usual = max(RECENT, 1 / self._served), max(USUAL, 1 / self._served)
        self._recent_s += (duration_s - self._recent_s) * recent
        self._usual_s += (duration_s - self._usual_s) * usual

    def _is_slow(self) -> bool:
        judged = self._served >= CALLS_BEFORE_JUDGING
        return judged and self._recent_s > SLOW_FACTOR * self._usual_s
