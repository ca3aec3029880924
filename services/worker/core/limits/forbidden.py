"""Whether a status 403 is about one request alone, as that of a firewall in front of a provider."""

from dataclasses import dataclass, replace

from services.worker.core.attempt.reply import Rejected, Reply, Served

FORBIDDEN_MAX = 3  # times that a request is forbidden, with other calls made and served in between


@dataclass(frozen=True, slots=True)
class Forbidden:
    """How often a request was forbidden while others were not, and when it was so last."""

    times: int = 0
    at: float = float("-inf")

    def again(self, now: float, served_since: float) -> "Forbidden":
        """Calls that began before, and are served still, do not show that others are not."""
        is_first = not self.times
        return Forbidden(self.times + 1, now) if is_first or served_since > self.at else self

    @property
    def is_of_request(self) -> bool:
        """Whether the request is at fault, and not its profile."""
        return self.times >= FORBIDDEN_MAX


NOT_FORBIDDEN = Forbidden()


def judged(
    reply: Reply, before: Forbidden, now: float, served_since: float
) -> tuple[Reply, Forbidden]:
    """The reply, as a rejection of the request where that is at fault.

    `served_since` is when the last began of the calls that the asked profile has served.
    """
    if isinstance(reply, Rejected) and (reply.scope, reply.status) == ("profile", 403):
        found = before.again(now, served_since)
        return replace(reply, scope="request") if found.is_of_request else reply, found
    # The next call after one that was served has another prompt.
    return reply, NOT_FORBIDDEN if isinstance(reply, Served) else before
