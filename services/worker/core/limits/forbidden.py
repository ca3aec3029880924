"""Whether a status 403 is about one request alone, as that of a firewall in front of a provider."""

from dataclasses import dataclass, replace

from services.worker.core.attempt.reply import Rejected, Reply

FORBIDDEN_MAX = 3  # times that a request is forbidden, with other calls served in between


@dataclass(frozen=True, slots=True)
class Forbidden:
    """How often a request was forbidden while others were not, and the calls served by then."""

    times: int = 0
    served: int = -1

    def again(self, served: int) -> "Forbidden":
        return Forbidden(self.times + (served > self.served), served)

    @property
    def is_of_request(self) -> bool:
        """Whether the request is at fault, and not its profile."""
        return self.times >= FORBIDDEN_MAX


def judged(reply: Reply, before: Forbidden, served: int) -> tuple[Reply, Forbidden]:
    """The reply, as a rejection of the request where that is at fault; `served` calls by now."""
    match reply:
        case Rejected(scope="profile", status=403):
            found = before.again(served)
            return replace(reply, scope="request") if found.is_of_request else reply, found
        case _:
            return reply, before
