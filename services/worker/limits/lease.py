"""The lease of one request on the limits of its profile and of the worker."""

from services.worker.core.attempt.reply import Reply
from services.worker.core.limits.fair_queue import FairKey
from services.worker.limits.isolation import SHARED, Isolation, IsolationLevel
from services.worker.limits.profile_limiter import ProfileLimiter
from services.worker.limits.slots import Reservation, Slots


class CallLease:
    """A reservation at both, beside the calls of others, then a slot at both.

    `leave` must follow, and returns what is still held.
    """

    def __init__(
        self,
        limiter: ProfileLimiter,
        slots: Slots,
        isolation: Isolation,
        level: IsolationLevel = SHARED,
        *,
        key: FairKey,
        tokens: int = 0,
        lane: int = 0,
    ) -> None:
        """See Reservation; `level` says which calls may run beside this one."""
        self._limiter, self._slots = limiter, slots
        self._isolation, self._level = isolation, level
        self._at_profile = Reservation(key, tokens, lane)
        self._in_worker = Reservation(key, tokens, lane)
        self._is_beside_others = self._is_calling = False

    @property
    def is_alone(self) -> bool:
        """Whether it excludes all other calls."""
        return self._level.alone

    def enters_at_once(self) -> bool:
        """Whether there is a right to spend without a wait; else `enter` takes what is missing."""
        self._is_beside_others = (
            self._limiter.slots.enter_at_once(self._at_profile)
            and self._slots.enter_at_once(self._in_worker)
            and self._isolation.enters_at_once(self._level)
        )
        return self._is_beside_others

    async def enter(self) -> None:
        """Wait for the right to spend; fairly by key, as long as it takes."""
        if not self._at_profile.is_held:
            await self._limiter.slots.enter(self._at_profile)
        if not self._in_worker.is_held:
            await self._slots.enter(self._in_worker)
        await self._isolation.enter(self._level)
        self._is_beside_others = True

    def begins_at_once(self, spend_s: float) -> bool:
        """Whether there is a slot without a wait; else `begin_call` takes what is missing."""
        return self._limiter.slots.begin_at_once(
            self._at_profile, spend_s
        ) and self._slots.begin_at_once(self._in_worker, spend_s)

    async def begin_call(self, spend_s: float) -> None:
        """Wait for a slot; `spend_s` is what the permit took."""
        await self._limiter.slots.begin_call(self._at_profile, spend_s)
        await self._slots.begin_call(self._in_worker, spend_s)

    @property
    def may_call(self) -> bool:
        """Whether the profile may be called now: something may have happened since `enter`."""
        return self._limiter.allows(self._at_profile)

    def call_begins(self) -> None:
        """The call begins: what it takes of the minute is gone."""
        self._at_profile.is_used = self._is_calling = True
        self._limiter.call_begins()

    def report(self, reply: Reply, duration_s: float) -> None:
        """Let the profile's limits learn what the call came to."""
        self._limiter.report(reply, duration_s, self._at_profile)

    def leave_limits(self) -> None:
        """Give back slots and reservations."""
        if self._is_calling:
            self._is_calling = False
            self._limiter.call_ended()
        self._slots.leave(self._in_worker)
        self._limiter.slots.leave(self._at_profile)

    def leave_isolation(self) -> None:
        """Let others call that have waited for this call."""
        if self._is_beside_others:
            self._is_beside_others = False
            self._isolation.leave(self._level)

    def leave(self) -> None:
        """Give back all that is still held."""
        self.leave_limits()
        self.leave_isolation()
