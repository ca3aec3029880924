"""The parts of a lane that exist only while it has a producer."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from answerbus.request_key import RequestKey
from services.worker.core.budget.account import Spend
from services.worker.core.request.lane_request import LaneRequest
from services.worker.lane.cancellable_timeouts import Waits
from services.worker.lane.outbox import Outbox
from services.worker.lane.state.lane_state import LaneState
from services.worker.lane.state.records import LaneWrite
from services.worker.lane.state.signals import overdue
from services.worker.lane.state.suspects import SPARE_ATTEMPTS

PACK_EVERY_S = 1.0  # a step takes up to 0.1 s of a core
CLAIM_HELD = timedelta(seconds=5)  # for a request whose profile is away
ENDED_PER_PASS = 64  # a workflow may have thousands of requests, all cancelled at once


@dataclass(slots=True)
class OpenLane:
    """What was read at its opening and what it has become since, and the producer that writes it.

    `is_careful`: what may end the worker is marked before it is done (lane/crash_mark.py).
    """

    lane_state: LaneState
    outbox: Outbox
    is_careful: bool
    stable_at: float  # loop time
    trials_from: float  # loop time
    signals_applied_until: datetime | None = None  # up to then, all signals to its runs are applied
    packing: "asyncio.Future[float] | None" = None
    packs_at: float = 0.0  # loop time

    def put(self, writing: LaneWrite) -> "asyncio.Future[float]":
        return self.outbox.put(writing.records, writing.offset)

    def prove_ownership(self, now: datetime) -> "asyncio.Future[float]":
        """Write what only the rightful owner of the partition can. Raises LaneLost."""
        return self.put(self.lane_state.prove_ownership(now))

    def leave_careful_mode(self, now: datetime) -> None:
        """A lane that has lasted for a while was not ended by what it holds, busy or not."""
        if asyncio.get_running_loop().time() < self.stable_at:
            return
        self.is_careful = False
        if progress := self.lane_state.own_record.without_failed_openings(now):
            self.outbox.put([progress], None)

    def pack_ids(self, now: datetime) -> None:
        """Write closed ids down as chunks: now and then a step, in a transaction of its own."""
        moment = asyncio.get_running_loop().time()
        if moment < self.packs_at or (self.packing and not self.packing.done()):
            return
        self.packs_at = moment + PACK_EVERY_S
        if packed := self.lane_state.pack_ids(now):
            # Apart, so that each entry stays there for those who audit.
            self.packing = self.outbox.put(packed.records, packed.offset, apart=True)

    def ending(self, waits: Waits, now: datetime) -> list[LaneRequest]:
        """Requests that are to end now, as running: their deadline has passed, or by a person.

        One that runs already ends with its call, or as soon as it need not wait for its place.
        """
        state = self.lane_state
        found = state.queue.wake(now)
        for lane_request in state.queue.take_ending(ENDED_PER_PASS):
            if state.queue.run_to_end(lane_request):
                found.append(lane_request)
            else:
                waits.end(lane_request)
        return found

    def write_overdue(self, now: datetime) -> None:
        """Deliver calls again whose time is over, or end them, once all said by then is heard.

        A result may wait to be read: it came while no worker was there, or while this one was slow.
        """
        if self.signals_applied_until is None:
            return
        if written := overdue(self.lane_state, min(self.signals_applied_until, now), now):
            self.put(written)

    def release_claims(
        self, unavailable: Callable[[Iterable[str]], Collection[str]], now: datetime
    ) -> None:
        """Take back what requests have claimed of shared budgets whose profile is `unavailable`.

        They claim it again once they may be asked; until then others may have it.
        """
        state = self.lane_state
        held = state.budgets.claims.whole_until(now - CLAIM_HELD)
        if not held:
            return
        requests = state.queue.requests
        profiles = {key: requests[key].request.profile for key in held if key in requests}
        away = unavailable({*profiles.values()})
        for key, profile in profiles.items():
            if profile in away:
                state.budgets.release(key, now)
        if state.budgets.has_unsent:
            self.put(state.writing())

    def must_apply_signals(self, now: datetime) -> bool:
        """Whether the time of a call is over, and what was said until then is not all heard."""
        due = self.lane_state.runs.next_moment()
        if due is None or due > now:
            return False
        return self.signals_applied_until is None or self.signals_applied_until < due

    def next_moment(self, now: datetime) -> datetime | None:
        """When something is due by time alone."""
        if self.lane_state.queue.has_ending:
            return now
        due = None if self.must_apply_signals(now) else self.lane_state.runs.next_moment()
        moments = self.lane_state.queue.next_moment(), due
        return min(filter(None, moments), default=None)

    def take_suspects(self, now: datetime) -> list[LaneRequest]:
        """Those of the suspects that are tried next; none before the others have had some time."""
        if asyncio.get_running_loop().time() < self.trials_from:
            return []
        queue, can_spare = self.lane_state.queue, partial(self._can_spare, now)
        chosen = self.lane_state.suspects.next_tried(queue.apart(), can_spare)
        return [queue.take_apart(key) for key in chosen]

    def _can_spare(self, now: datetime, key: RequestKey) -> bool:
        """Whether its account could pay for one more crash."""
        request = self.lane_state.queue.requests[key].request
        account = self.lane_state.ledger.account(request, now)
        left = account.limit.attempts - account.charged[0] - len(account.in_flight)
        return left >= SPARE_ATTEMPTS

    def release_unused(self, unused: Mapping[Spend, LaneRequest], now: datetime) -> None:
        """Release the spends whose call will never begin, now that their tasks have been ended."""
        for spend, lane_request in unused.items():
            if self.lane_state.ledger.holds(spend):
                writing = self.lane_state.release(lane_request, spend, now)
                self.outbox.put(writing.records, writing.offset, apart=True)

    @property
    def failed_openings(self) -> int:
        """Since the lane last got anything done."""
        record = self.lane_state.ledger.lane
        return record.openings_without_progress if record else 0
