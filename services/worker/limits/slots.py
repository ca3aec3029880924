"""Slots for calls in flight, with a short queue of permits that wait for one."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from services.worker.core.limits.fair_queue import FairKey, FairQueue, count_down, has_share
from services.worker.tasks.loop_time import loop_time

AHEAD_FACTOR = 2.0  # times what is needed on average, since commits are not even
SMOOTHING = 1 / 50  # weight of one call in the averages
LOOK_S_MIN = 0.001  # a wait below the resolution of the clock would never end

NO_OWNER = FairKey("", "")
KEYS_LOOKED_AT_MAX = 32  # for one of the same lane
PASSED_OVER_MAX = 16  # times in a row for one of the same lane


@dataclass(slots=True, eq=False)
class Reservation:
    """The place that one call asks for, and its state: the right to spend, and then a slot.

    `key` is whose share of the places it counts for, `tokens` what it is expected to use at worst,
    and `lane` to whom its place goes next at best. A probe is let through where others are not;
    `is_used` is set by the one that calls.
    """

    key: FairKey = NO_OWNER
    tokens: int = 0
    lane: int | None = None
    is_probe: bool = False
    is_held: bool = False
    is_used: bool = False
    called_from: float | None = None  # loop time, while it has a slot
    given: "asyncio.Future[None]" = field(init=False, repr=False)  # of one that waits for its place


class WaiterQueue:
    """A key that may not be served now is passed over, and keeps its turn.

    What a lane was given back is best given to the same lane: the outcome of one request and the
    spend of the next share a transaction. So one of that lane goes before the first, if its key
    holds no more than that of the first, which waits for at most `PASSED_OVER_MAX` of them.
    """

    def __init__(
        self,
        may: Callable[[FairKey], bool] = lambda _: True,
        held: Callable[[FairKey], tuple[int, int]] = lambda _: (0, 0),
    ) -> None:
        """`held` says how much of what is waited for a key's tenant has, and its workflow."""
        self._may, self._held = may, held
        self._waiting: FairQueue[Reservation] = FairQueue(lambda asked: asked.given.done())
        self._in_turn: Reservation | None = None
        self._passed_over = 0

    def join(self, asked: Reservation) -> None:
        """Wait behind the others of the key."""
        asked.given = asyncio.get_running_loop().create_future()
        self._waiting.put(asked.key, asked)

    def first(self, lane: int | None = None) -> Reservation | None:
        """The one whose turn it is, when this lane gave back; it goes on waiting."""
        found = self._waiting.next(self._may)
        if found is None:
            return None
        key, first = found
        self._in_turn = first
        if lane is None or first.lane == lane or self._passed_over >= PASSED_OVER_MAX:
            return first
        return self._of_lane(lane, self._held(key)) or first

    def __bool__(self) -> bool:
        """Whether one may wait; some may have gone meanwhile."""
        return len(self._waiting) > 0

    @property
    def is_empty(self) -> bool:
        """Whether none waits, also of those that may not be served now."""
        return self._waiting.next() is None

    def serve(self, asked: Reservation) -> None:
        """Give what it waits for to one that `first` has named."""
        self._passed_over = 0 if asked is self._in_turn else self._passed_over + 1
        self._waiting.serve(asked.key)
        asked.given.set_result(None)

    def _of_lane(self, lane: int, held_max: tuple[int, int]) -> Reservation | None:
        for key, asked in self._waiting.ahead(KEYS_LOOKED_AT_MAX):
            if asked.lane != lane or asked.given.done():
                continue
            if self._held(key) <= held_max and self._may(key):
                return asked
        return None


class Gate(Protocol):
    """Conditions of a place, beside free slots."""

    def admit(self, asked: Reservation) -> float | None:
        """None where it may have a place, else the seconds until it may ask again."""
        ...

    def left(self, reservation: Reservation) -> None:
        """The place is given back; its slot is free after that."""
        ...


class Slots:
    """At most `limit` calls at once.

    A spend takes a commit, and a slot that waited for it would stand empty. So a few more than
    `limit` get a place: as many as slots become free while one spend is committed. No key gets all
    places, so that one whose calls are slow leaves some for the others.
    """

    def __init__(self, limit: int, gate: Gate | None = None) -> None:
        self.limit = limit
        self._gate = gate
        self.calling = 0
        self.reserved = 0
        self._queue = WaiterQueue(self._has_share, self._held)
        self._reserved_of: Counter[FairKey] = Counter()
        self._reserved_of_tenant: Counter[str] = Counter()
        self._next: deque[asyncio.Future[None]] = deque()
        self._spend_s = 0.0
        self._call_s: float | None = None
        self._alarm: asyncio.TimerHandle | None = None

    def set_limit(self, limit: int) -> None:
        """Another number of calls is allowed; those under way go on."""
        self.limit = limit
        self._fill()
        self._let_in()

    def enter_at_once(self, asked: Reservation) -> bool:
        """Whether it has a place that is free and has no queue; without a future and a turn."""
        if self._queue or not self._has_share(asked.key):
            return False
        if self._gate and self._gate.admit(asked) is not None:
            return False
        self._take(asked)
        return True

    async def enter(self, asked: Reservation) -> None:
        """Wait for a place, fairly by key, as long as it takes; `leave` gives it back."""
        self._queue.join(asked)
        self._let_in()
        try:
            await asked.given
        except asyncio.CancelledError:
            self.leave(asked)
            raise

    def leave(self, reservation: Reservation) -> None:
        """Give back its slot and its place, as far as it has them."""
        if reservation.called_from is not None:
            known, call_s = self._call_s, loop_time() - reservation.called_from
            self._call_s = call_s if known is None else known + (call_s - known) * SMOOTHING
            reservation.called_from = None
            self._free()
        if not reservation.is_held:
            return
        reservation.is_held = False
        if self._gate:
            self._gate.left(reservation)
        self.reserved -= 1
        count_down(self._reserved_of, reservation.key)
        count_down(self._reserved_of_tenant, reservation.key.tenant)
        self._let_in(reservation.lane)

    def begin_at_once(self, reservation: Reservation, spend_s: float) -> bool:
        """Whether it has a slot without a wait; `spend_s` is what the permit took."""
        if self.calling >= self.limit or self._next:
            return False
        self._learn(spend_s)
        self.calling += 1
        reservation.called_from = loop_time()
        return True

    async def begin_call(self, reservation: Reservation, spend_s: float) -> None:
        """Wait for a slot, in the order of coming, unless it has one."""
        if reservation.called_from is not None or self.begin_at_once(reservation, spend_s):
            return
        self._learn(spend_s)
        waiter = asyncio.get_running_loop().create_future()
        self._next.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._free()
            raise
        reservation.called_from = loop_time()

    def _learn(self, spend_s: float) -> None:
        self._spend_s += (spend_s - self._spend_s) * SMOOTHING

    @property
    def is_awaited(self) -> bool:
        """Whether a call waits for a place."""
        return not self._queue.is_empty

    @property
    def has_room(self) -> bool:
        """Whether one more may have a place, if it has its share."""
        return self.reserved < self.limit + self.ahead

    @property
    def ahead(self) -> int:
        """How many may have a place beside those who call."""
        if not self._call_s:
            return 0
        return min(int(AHEAD_FACTOR * self.limit * self._spend_s / self._call_s + 0.5), self.limit)

    def _has_share(self, key: FairKey) -> bool:
        most = self.limit + self.ahead
        return has_share(self._reserved_of.get(key, 0), most - self.reserved, most)

    def _held(self, key: FairKey) -> tuple[int, int]:
        return self._reserved_of_tenant.get(key.tenant, 0), self._reserved_of.get(key, 0)

    def _let_in(self, lane: int | None = None) -> None:
        # Room first: while there is none, no key has a share, and each would be looked at.
        while self._queue and self.has_room and (first := self._queue.first(lane)):
            wait_s = self._gate.admit(first) if self._gate else None
            if wait_s is not None:
                self._look_again_in(wait_s)
                return
            self._take(first)
            self._queue.serve(first)

    def _take(self, asked: Reservation) -> None:
        asked.is_held = True
        self.reserved += 1
        self._reserved_of[asked.key] += 1
        self._reserved_of_tenant[asked.key.tenant] += 1

    def _look_again_in(self, delay_s: float) -> None:
        if self._alarm:
            self._alarm.cancel()
        if delay_s < float("inf"):
            self._alarm = asyncio.get_running_loop().call_later(
                max(delay_s, LOOK_S_MIN), self._let_in
            )

    def _free(self) -> None:
        self.calling -= 1
        self._fill()

    def _fill(self) -> None:
        while self._next and self.calling < self.limit:
            waiter = self._next.popleft()
            if not waiter.done():
                self.calling += 1
                waiter.set_result(None)
