"""All that limits the use of one profile: slots, rates per minute, and a breaker."""

import asyncio
import math
from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from services.worker.core.attempt.fallback import HEALTHY, ProfileHealth
from services.worker.core.attempt.reply import (
    Answered,
    NoAnswer,
    Refused,
    Reply,
    Served,
    Throttled,
    TimedOut,
    Truncated,
    Unavailable,
    is_counted,
)
from services.worker.core.limits.breaker import Breaker
from services.worker.core.limits.concurrency import Concurrency
from services.worker.core.limits.group_share import GroupShare
from services.worker.core.limits.profile_problem import ProfileProblem
from services.worker.core.limits.rate import TokenBucket
from services.worker.core.limits.reachability import Reachability
from services.worker.core.limits.response_watchdog import ResponseWatchdog
from services.worker.limits.slots import Reservation, Slots
from services.worker.ports.provider import NotReady, Readiness, Ready, Unhealthy

REPORT_AGAIN_S = 1.0  # those who wait learn of a pause that is so much longer


class ProfileLimiter:
    """The gate of `slots`: fewer while the provider is overloaded, and given out at its pace.

    While the breaker is open only its probes get a reservation, until one of them is served.
    """

    def __init__(
        self,
        slots: int,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        server: Reachability | None = None,
        *,
        is_of_group: bool = False,
    ) -> None:
        """The limits are those of the whole group if `is_of_group`, see `share_out`."""
        self.slots = Slots(slots, self)
        self.stated = (slots, requests_per_minute, tokens_per_minute)
        self.is_of_group = is_of_group
        self.breaker = Breaker()
        self.server = server or Reachability("its server")
        self.check_fault: str | None = None
        self.watchdog = ResponseWatchdog()
        self._concurrency = Concurrency(slots)
        self._requests = TokenBucket(requests_per_minute) if requests_per_minute else None
        self._tokens = TokenBucket(tokens_per_minute) if tokens_per_minute else None
        self.in_flight = 0
        """Calls at its provider; `slots.calling` also has those that wait for the worker."""
        self.waiting: dict[Callable[[], None], bool] = {}
        """Those who wait for a place: what makes one plan again, and if another may be asked."""
        self._reported = HEALTHY
        self._probing = 0
        self._paced_until = float("-inf")

    @property
    def setup_fault(self) -> str | None:
        """The fault in the set-up of the profile, if any."""
        return self.breaker.setup_fault

    @property
    def problem(self) -> ProfileProblem | None:
        """Why no request of the profile can be served now, as the last word on it says."""
        now = asyncio.get_running_loop().time()
        away, failing = self.server.problem(now), self.breaker.problem(now)
        if self.setup_fault:
            return failing
        if self.check_fault is None:
            return away or failing
        found = away or ProfileProblem("check_failed", "")
        return replace(found, text=self.check_fault)

    @property
    def wants_check(self) -> bool:
        """Whether to find out without a call if its provider is back."""
        return self.check_fault is not None or self.server.away_since is not None

    @property
    def health(self) -> ProfileHealth:
        """For those who may ask another profile; the next probe is to find it healthy."""
        now, breaker = asyncio.get_running_loop().time(), self.breaker
        if breaker.is_open and self._would_admit_probe(now):
            return HEALTHY
        return self._last_health(now)

    def _last_health(self, now: float) -> ProfileHealth:
        breaker = self.breaker
        if not breaker.is_open:
            return ProfileHealth(is_unhealthy=True) if self.wants_check else HEALTHY
        since = breaker.throttled_since
        throttled_s = 0.0 if since is None else now - since + breaker.pause_s(now)
        return ProfileHealth(breaker.is_away or self.wants_check, throttled_s)

    def _would_admit_probe(self, now: float) -> bool:
        is_due = not self.breaker.pause_s(now) and self._probing < self.breaker.probes(now)
        return is_due and self.slots.has_room and not self.slots.is_awaited

    def throttled_in_s(self, bound_s: float) -> float:
        """Until it has been throttled for so long, if it goes on as it is; never if it has."""
        if (since := self.breaker.throttled_since) is None:
            return math.inf
        left_s = since + bound_s - asyncio.get_running_loop().time()
        return left_s if left_s > 0 else math.inf

    def plan_again(self, *, all_waiting: bool = False) -> None:
        """Let those who wait here look at whom they ask, as far as that may be another profile."""
        for plan_again in [one for one, may in self.waiting.items() if may or all_waiting]:
            plan_again()

    def checked(self, readiness: Readiness) -> None:
        """Learn from a check without a call."""
        match readiness:
            case Ready():
                self.check_fault = None
                self.server.reached()
            case NotReady(remedy):
                self.check_fault = remedy
                self.server.reached()
            case Unhealthy(why, connected):
                self.check_fault = why
                if not connected:
                    self.server.refused(asyncio.get_running_loop().time())
            case _:
                assert_never(readiness)
        self._report_health(is_probe=False)

    def _report_health(self, *, is_probe: bool) -> None:
        """To waiting requests: once when it goes away, and at each probe that fails."""
        found, reported = self._last_health(asyncio.get_running_loop().time()), self._reported
        if found == HEALTHY:
            self._reported = found
            return
        is_worse = found.is_unhealthy > reported.is_unhealthy
        is_longer = found.throttled_s > reported.throttled_s + REPORT_AGAIN_S
        if is_worse or is_longer or is_probe:
            self._reported = found
            self.plan_again()

    def share_out(self, share: GroupShare) -> None:
        """Take this worker's part of the group's limits; without a lane it keeps what it had."""
        if not self.is_of_group or share.is_empty:
            return
        slots, requests, tokens = self.stated
        now = asyncio.get_running_loop().time()
        self._concurrency.set_most(share.slots_part(slots))
        for bucket, per_minute in ((self._requests, requests), (self._tokens, tokens)):
            if bucket and per_minute:
                bucket.set_rate(share.rate_part(per_minute), now)
        self.slots.set_limit(self._concurrency.limit)

    def become(self, other: "ProfileLimiter", *, keeps_learnt: bool) -> None:
        """Have the limits of `other`, and what it knows of its provider unless `keeps_learnt`.

        Those who call or wait here go on.
        """
        now = asyncio.get_running_loop().time()
        self.stated, self.is_of_group = other.stated, other.is_of_group
        slots, requests, tokens = self.stated
        if keeps_learnt:
            self._concurrency.set_most(slots)
        else:
            self.breaker, self.server, self.watchdog = other.breaker, other.server, other.watchdog
            self.check_fault, self._concurrency = other.check_fault, Concurrency(slots)
        self._requests = _refilled(self._requests, requests, now)
        self._tokens = _refilled(self._tokens, tokens, now)
        if not self.is_of_group:
            self.slots.set_limit(self._concurrency.limit)

    @property
    def is_throttled(self) -> bool:
        """Whether provider or rate hold calls back: more workers would make none faster."""
        now = asyncio.get_running_loop().time()
        is_paced = self.slots.is_awaited and now < self._paced_until
        return is_paced or self.breaker.is_open or self.slots.limit < self._concurrency.most

    @property
    def counts_tokens(self) -> bool:
        """Whether `reservation` wants to know what a call may use."""
        return self._tokens is not None

    def allows(self, reservation: Reservation) -> bool:
        """Whether its holder may call: something may have happened since it was given out."""
        return reservation.is_probe or not self.breaker.is_open

    @property
    def silent_s(self) -> float:
        """How long calls have been tried without a word from the provider."""
        now = asyncio.get_running_loop().time()
        return self.watchdog.lasts_s(now, calls=self.in_flight > 0)

    def call_begins(self) -> None:
        """The provider is called now; `call_ended` must follow."""
        self.in_flight += 1
        now = asyncio.get_running_loop().time()
        self.watchdog.called(now, others=self.in_flight > 1)

    def call_ended(self) -> None:
        """The provider does not work on it any more, or is not waited for."""
        self.in_flight -= 1

    def report(self, reply: Reply, duration_s: float, reservation: Reservation) -> None:
        """Learn from a reply to the holder of a place."""
        now = asyncio.get_running_loop().time()
        was_open = self.breaker.is_open
        self.breaker.report(reply, now, duration_s, is_probe=reservation.is_probe)
        self.server.learn(reply, now)
        self._listen(reply, now)
        match reply:
            case Answered() | Refused() | Truncated() | NoAnswer():
                self._concurrency.served(duration_s)
                self.watchdog.served(duration_s)
                self.check_fault = None
            case Throttled() if not was_open and self._needs_fewer(now):
                self._concurrency.throttled(now)
            case _:
                pass
        self._put_back(reply, reservation.tokens, now)
        self.slots.set_limit(self._concurrency.limit)
        self._report_health(is_probe=reservation.is_probe)

    def _needs_fewer(self, now: float) -> bool:
        """Whether a pause is not enough for a provider that refuses: it needs none, or another."""
        return not self.breaker.is_open or self.breaker.was_open_lately(now)

    def _listen(self, reply: Reply, now: float) -> None:
        match reply:
            case TimedOut() | Unavailable(status=None):
                self.watchdog.missed(now)
            case _:
                self.watchdog.responded(now, others=self.in_flight > 1)

    def _put_back(self, reply: Reply, tokens: int, now: float) -> None:
        """What a call used is known only afterwards; it had been taken at its worst case."""
        if self._tokens and not is_counted(reply):
            self._tokens.put_back(tokens, now)
        elif self._tokens and isinstance(reply, Served):
            usage = reply.facts.usage
            if usage.input_tokens is not None and usage.output_tokens is not None:
                used = usage.input_tokens + usage.output_tokens
                self._tokens.put_back(max(tokens - used, 0), now)

    def admit(self, asked: Reservation) -> float | None:
        now = asyncio.get_running_loop().time()
        if pause_s := self.breaker.pause_s(now):
            return pause_s
        is_probe = self.breaker.is_open
        if is_probe and self._probing >= self.breaker.probes(now):
            return self.breaker.more_probes_in_s(now)
        wait_s = max(
            self._requests.wait_s(1, now) if self._requests else 0.0,
            self._tokens.wait_s(asked.tokens, now) if self._tokens else 0.0,
        )
        if wait_s:
            self._paced_until = now + wait_s
            return wait_s
        if self._requests:
            self._requests.take(1, now)
        if self._tokens:
            self._tokens.take(asked.tokens, now)
        self._probing += is_probe
        asked.is_probe = is_probe
        return None

    def left(self, reservation: Reservation) -> None:
        """A probe leaves the way to the next one, and who did not call gives its rate back.

        A thousand requests whose budget is used up must not use up the minute as well.
        """
        self._probing -= reservation.is_probe
        if not reservation.is_used:
            now = asyncio.get_running_loop().time()
            if self._requests:
                self._requests.put_back(1, now)
            if self._tokens:
                self._tokens.put_back(reservation.tokens, now)


def _refilled(bucket: TokenBucket | None, rate: int | None, now: float) -> TokenBucket | None:
    """Another rate; what this minute's calls took stays taken."""
    if bucket and rate:
        bucket.set_rate(rate, now)
        return bucket
    return TokenBucket(rate) if rate else None
