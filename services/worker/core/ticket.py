"""A request on its way through a lane: what was asked, where it came from, and what happened."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto

from answerbus.outcome import Origin, RetryRequest
from answerbus.request import Prior, Request


class Stage(Enum):
    """Where a ticket stands in its lane's queue."""

    WAITING = auto()  # behind another of its workflow
    READY = auto()
    RUNNING = auto()
    HELD = auto()  # until `not_before`
    GONE = auto()


@dataclass(slots=True, eq=False)
class Ticket:
    """One admitted request.

    `offset` is its place in the lane's partition while its record still holds the watermark, else
    None. `listed` says whether the retries topic has an entry for it, which its terminal must end.
    """

    request: Request
    body_digest: str
    origin: Origin
    notes: tuple[str, ...]
    size_bytes: int
    offset: int | None
    prior: tuple[Prior, ...] = ()
    waits: int = 0
    listed: bool = False
    not_before: datetime | None = None
    stage: Stage = Stage.WAITING

    @property
    def deadline(self) -> datetime:
        """Append time plus `ttl_s`; no call starts after it."""
        return self.origin.timestamp + timedelta(seconds=self.request.ttl_s)

    @property
    def round(self) -> int:
        """How often operators have replayed it."""
        return self.request.replay.round if self.request.replay else 0


def restored(entry: RetryRequest, size_bytes: int) -> Ticket:
    """The ticket of a request that the retries topic says is still being tried."""
    return Ticket(
        request=entry.request,
        body_digest=entry.body_digest,
        origin=entry.origin,
        notes=entry.notes,
        size_bytes=size_bytes,
        offset=None,
        prior=entry.prior,
        waits=entry.waits,
        listed=True,
        not_before=entry.not_before,
    )
