"""Slots for calls in flight, with a short queue of permits that wait for one."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from services.worker.core.limits.fair_queue import FairKey, FairQueue, count_down, has_share
from services.worker.tasks.loop_time import loop_time

AHEAD_FACTOR = 2.0  # times what is needed on average, since commits are not even
SMOOTHING = 1 / 50  # weight of one call in the averages
LOOK_S_MIN = 0.001  # a wait below the resolution of the clock would never end
T = TypeVar("T")

NO_OWNER = FairKey("", "")
KEYS_LOOKED_AT_MAX = 32  # for one of the same lane
PASSED_OVER_MAX = 16  # times in a row for one of the same lane


@dataclass(frozen=True, slots=True, eq=False)
class Waiter(Generic[T]):
    """A task that waits, what it asks for, and what it will be given; `lane` is its partition."""

    key: FairKey
    tokens: int
    given: "asyncio.Future[T]"
    lane: int | None = None


class WaiterQueue(Generic[T]):
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
        self._waiting: FairQueue[Waiter[T]] = FairQueue(lambda waiter: waiter.given.done())
        self._in_turn: Waiter[T] | None = None
        self._passed_over = 0

    def join(self, key: FairKey, tokens: int, lane: int | None = None) -> Waiter[T]:
        """Wait behind the others of the key."""
        waiter = Waiter(key, tokens, asyncio.get_running_loop().create_future(), lane)
        self._waiting.put(key, waiter)
        return waiter

    def first(self, lane: int | None = None) -> Waiter[T] | None:
        """The waiter whose turn it is, when this lane gave back; it goes on waiting."""
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

    def serve(self, waiter: Waiter[T], value: T) -> None:
        """Give what it waits for to one that `first` has named."""
        self._passed_over = 0 if waiter is self._in_turn else self._passed_over + 1
        self._waiting.serve(waiter.key)
        waiter.given.set_result(value)

    def _of_lane(self, lane: int, held_max: tuple[int, int]) -> Waiter[T] | None:
        for key, waiter in self._waiting.ahead(KEYS_LOOKED_AT_MAX):
            if waiter.lane != lane or waiter.given.done():
                continue
            if self._held(key) <= held_max and self._may(key):
                return waiter
        return None


@dataclass(slots=True, eq=False)
class Reservation:
    """The right to spend for the next free slot; a probe is let through where others are not.

    `tokens` is what the call was expected to use at worst; `is_used` is set by the one that calls.
    `key` is whose share of the places it counts for, and `lane` to whom a place goes next at best.
    """

    is_probe: bool = False
    tokens: int = 0
    key: FairKey = NO_OWNER
    lane: int | None = None
    is_used: bool = False


class Gate(Protocol):
    """Conditions of a place, beside free slots."""

    def admit(self, tokens: int) -> Reservation | float:
        """A place for the first in the line, or the seconds until they may ask again."""
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
        self._queue: WaiterQueue[Reservation] = WaiterQueue(self._has_share, self._held)
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

    def enter_at_once(
        self, key: FairKey, tokens: int = 0, lane: int | None = None
    ) -> Reservation | None:
        """A place that is free and has no queue; without a future, a timer and a turn."""
        if self._queue or not self._has_share(key):
            return None
        admitted = self._gate.admit(tokens) if self._gate else Reservation()
        return self._take(admitted, key, lane) if isinstance(admitted, Reservation) else None

    async def enter(self, key: FairKey, tokens: int = 0, lane: int | None = None) -> Reservation:
        """Wait for a place, fairly by key, as long as it takes; `leave` gives it back."""
        waiter = self._queue.join(key, tokens, lane)
        self._let_in()
        try:
            return await waiter.given
        except asyncio.CancelledError:
            if waiter.given.done() and not waiter.given.cancelled():
                self.leave(waiter.given.result())
            raise

    def leave(self, reservation: Reservation) -> None:
        if self._gate:
            self._gate.left(reservation)
        self.reserved -= 1
        count_down(self._reserved_of, reservation.key)
        count_down(self._reserved_of_tenant, reservation.key.tenant)
        self._let_in(reservation.lane)

    def begin_at_once(self, spend_s: float) -> float | None:
        """What `begin_call` gives, if a slot is free; None if it has to be waited for."""
        if self.calling >= self.limit or self._next:
            return None
        self._learn(spend_s)
        self.calling += 1
        return loop_time()

    async def begin_call(self, spend_s: float) -> float:
        """Wait for a slot, in the order of coming; `spend_s` is what the permit took.

        Gives what `end_call` wants to know.
        """
        if (began := self.begin_at_once(spend_s)) is not None:
            return began
        self._learn(spend_s)
        waiter = asyncio.get_running_loop().create_future()
        self._next.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._free()
            raise
        return loop_time()

    def _learn(self, spend_s: float) -> None:
        self._spend_s += (spend_s - self._spend_s) * SMOOTHING

    def end_call(self, began: float) -> None:
        known, call_s = self._call_s, loop_time() - began
        self._call_s = call_s if known is None else known + (call_s - known) * SMOOTHING
        self._free()

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
            admitted = self._gate.admit(first.tokens) if self._gate else Reservation()
            if not isinstance(admitted, Reservation):
                self._look_again_in(admitted)
                return
            self._queue.serve(first, self._take(admitted, first.key, first.lane))

    def _take(self, place: Reservation, key: FairKey, lane: int | None) -> Reservation:
        place.key, place.lane = key, lane
        self.reserved += 1
        self._reserved_of[key] += 1
        self._reserved_of_tenant[key.tenant] += 1
        return place

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
