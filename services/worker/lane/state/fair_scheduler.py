"""Selects the next request: fair between profiles, then tenants, then workflows."""

import sys
from collections import Counter, OrderedDict
from collections.abc import Container
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from services.worker.core.limits.fair_queue import (
    SHARE_FACTOR,
    FairKey,
    FairQueue,
    count_down,
    has_share,
)
from services.worker.core.request.lane_request import LaneRequest
from services.worker.core.request.life import RequestState


@dataclass(slots=True)
class FairScheduler:
    """Ready requests, taken round robin over profiles, then over tenants, then over workflows.

    Running requests may wait hours for an unavailable profile, and must not block those of other
    profiles. Nor must one tenant or workflow block others of its profile: each has a share.
    """

    _running: set[LaneRequest] = field(default_factory=set)
    _running_of: Counter[str] = field(default_factory=Counter)
    _of_tenant: Counter[tuple[str, str]] = field(default_factory=Counter)  # by profile
    _shares: Counter[tuple[str, FairKey]] = field(default_factory=Counter)
    _ready: OrderedDict[str, FairQueue[LaneRequest]] = field(default_factory=OrderedDict)

    def __contains__(self, lane_request: object) -> bool:
        return lane_request in self._running

    @property
    def running(self) -> int:
        return len(self._running)

    def running_in(self, workflow_id: str) -> int:
        return sum(one.key.workflow_id == workflow_id for one in self._running)

    @property
    def profiles(self) -> AbstractSet[str]:
        """Those with a request that runs or is ready."""
        return self._running_of.keys() | self._ready.keys()

    def pressing(self, unavailable: Container[str]) -> int:
        """Requests that run, and workflows with a ready one, but for profiles `unavailable`."""
        running = sum(n for profile, n in self._running_of.items() if profile not in unavailable)
        ready = (len(found) for profile, found in self._ready.items() if profile not in unavailable)
        return running + sum(ready)

    def line_up(self, lane_request: LaneRequest, *, first: bool) -> None:
        """Its turn will come; `first` of its workflow, or last."""
        profile = lane_request.request.profile
        if (ready := self._ready.get(profile)) is None:
            ready = self._ready[profile] = FairQueue(_is_gone)
        ready.put(lane_request.fair_key, lane_request, first=first)

    def take(self, most: int = sys.maxsize) -> LaneRequest | None:
        """The next request, running, of a profile and tenant with fewer than `most` running ones.

        Of one profile a few more run, so that a tenant which fills them keeps no other waiting.
        """
        for profile in list(self._ready):
            if lane_request := self._next_of(profile, most):
                return self.run(lane_request)
        return None

    def run(self, lane_request: LaneRequest) -> LaneRequest:
        """Let it run, out of turn."""
        profile, key = lane_request.request.profile, lane_request.fair_key
        self._running.add(lane_request)
        self._running_of[profile] += 1
        self._of_tenant[profile, key.tenant] += 1
        self._shares[profile, key] += 1
        return lane_request

    def stop(self, lane_request: LaneRequest) -> None:
        profile, key = lane_request.request.profile, lane_request.fair_key
        self._running.remove(lane_request)
        count_down(self._running_of, profile)
        count_down(self._of_tenant, (profile, key.tenant))
        count_down(self._shares, (profile, key))

    def _next_of(self, profile: str, most: int) -> LaneRequest | None:
        """Passes over who has a share already, and requests that no longer wait here."""
        ready, of_tenant, shares = self._ready[profile], self._of_tenant, self._shares
        whole = most + max(most // SHARE_FACTOR, 1)
        free = whole - self._running_of[profile]

        def tenant_has_share(tenant: str) -> bool:
            held = of_tenant[profile, tenant]
            return held < most and has_share(held, free, whole)

        def workflow_has_share(key: FairKey) -> bool:
            return has_share(shares[profile, key], most - of_tenant[profile, key.tenant], most)

        found = ready.next(workflow_has_share, tenant_has_share) if free > 0 else None
        if found:
            ready.serve(found[0])
        if not ready:
            del self._ready[profile]
        elif found:
            self._ready.move_to_end(profile)
        return found and found[1]


def _is_gone(lane_request: LaneRequest) -> bool:
    return lane_request.state is not RequestState.READY
