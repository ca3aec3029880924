"""The lease of one request on the limits of its profile and of the worker."""

from services.worker.core.attempt.reply import Reply
from services.worker.core.limits.fair_queue import FairKey
from services.worker.limits.profile_limiter import ProfileLimiter
from services.worker.limits.slots import Reservation, Slots


class CallLease:
    """A reservation at both, then a slot at both; `leave` must follow, and returns them."""

    def __init__(self, limiter: ProfileLimiter, slots: Slots) -> None:
        self._limiter, self._slots = limiter, slots
        self._limiter_reservation: Reservation | None = None
        self._slots_reservation: Reservation | None = None
        self._limiter_since: float | None = None
        self._slots_since: float | None = None
        self._is_calling = False

    def enters_at_once(self, key: FairKey, tokens: int, lane: int) -> bool:
        """Whether there is a right to spend without a wait; else `enter` takes what is missing."""
        self._limiter_reservation = self._limiter.slots.enter_at_once(key, tokens, lane)
        if self._limiter_reservation is not None:
            self._slots_reservation = self._slots.enter_at_once(key, tokens, lane)
        return self._slots_reservation is not None

    async def enter(self, key: FairKey, tokens: int, lane: int) -> None:
        """Wait for the right to spend; fairly by key, as long as it takes."""
        if self._limiter_reservation is None:
            self._limiter_reservation = await self._limiter.slots.enter(key, tokens, lane)
        if self._slots_reservation is None:
            self._slots_reservation = await self._slots.enter(key, tokens, lane)

    def begins_at_once(self, spend_s: float) -> bool:
        """Whether there is a slot without a wait; else `begin_call` takes what is missing."""
        self._limiter_since = self._limiter.slots.begin_at_once(spend_s)
        if self._limiter_since is not None:
            self._slots_since = self._slots.begin_at_once(spend_s)
        return self._slots_since is not None

    async def begin_call(self, spend_s: float) -> None:
        """Wait for a slot; `spend_s` is what the permit took."""
        if self._limiter_since is None:
            self._limiter_since = await self._limiter.slots.begin_call(spend_s)
        self._slots_since = await self._slots.begin_call(spend_s)

    @property
    def may_call(self) -> bool:
        """Whether the profile may be called now: something may have happened since `enter`."""
        return self._limiter_reservation is not None and self._limiter.allows(
            self._limiter_reservation
        )

    def call_begins(self) -> None:
        """The call begins: what it takes of the minute is gone."""
        if self._limiter_reservation is not None:
            self._limiter_reservation.is_used = True
        self._is_calling = True
        self._limiter.call_begins()

    @property
    def served_since(self) -> float:
        """When the last began of the calls that the profile has served."""
        return self._limiter.breaker.served_since

    def report(self, reply: Reply, duration_s: float) -> None:
        """Let the profile's limits learn what the call came to."""
        if self._limiter_reservation is not None:
            self._limiter.report(reply, duration_s, self._limiter_reservation)

    def leave(self) -> None:
        """Give back slots and places, as far as they are still held."""
        if self._is_calling:
            self._is_calling = False
            self._limiter.call_ended()
        if self._slots_since is not None:
            self._slots.end_call(self._slots_since)
        if self._limiter_since is not None:
            self._limiter.slots.end_call(self._limiter_since)
        if self._slots_reservation is not None:
            self._slots.leave(self._slots_reservation)
        if self._limiter_reservation is not None:
            self._limiter.slots.leave(self._limiter_reservation)
        self._slots_since = self._limiter_since = self._slots_reservation = (
            self._limiter_reservation
        ) = None
