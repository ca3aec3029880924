"""Whether a provider's server can be connected to: one for all the profiles that it serves."""

from dataclasses import dataclass

from services.worker.core.attempt.reply import Reply, TimedOut, Unavailable
from services.worker.core.limits.profile_problem import ProfileProblem


@dataclass(slots=True)
class Reachability:
    """Times are seconds on one clock; `server` is for operators, and holds no secret."""

    server: str
    away_since: float | None = None

    def learn(self, reply: Reply, now: float) -> None:
        """Learn from what a call came to.

        A connection that broke, or brought nothing in time, says neither: it may be an old one.
        """
        match reply:
            case Unavailable(status=None, ran=False):
                self.refused(now)
            case Unavailable(status=None) | TimedOut():
                pass
            case _:
                self.reached()

    def refused(self, now: float) -> None:
        self.away_since = now if self.away_since is None else self.away_since

    def reached(self) -> None:
        self.away_since = None

    def problem(self, now: float) -> ProfileProblem | None:
        """That of all its profiles; None if there is none."""
        if self.away_since is None:
            return None
        lasts_s = now - self.away_since
        text = f"no connection to {self.server} for {lasts_s:.0f} s"
        return ProfileProblem("no_connection", text, lasts_s)
