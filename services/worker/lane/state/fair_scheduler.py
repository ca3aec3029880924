"""Selects the next request: fair between profiles, and within one between workflows."""

import sys
from collections import Counter, OrderedDict
from collections.abc import Container
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TypeVar

from services.worker.core.limits.fair_queue import FairQueue, has_share
from services.worker.core.request.lane_request import LaneRequest
from services.worker.core.request.life import RequestState

_Key = TypeVar("_Key")


@dataclass(slots=True)
class FairScheduler:
    """Ready requests, taken round robin over profiles, then over workflows.

    Running requests may wait hours for an unavailable profile, and must not block those of other
    profiles. Nor must one workflow block others of its profile: each has a share.
    """

    running_in: Counter[str] = field(default_factory=Counter)  # by workflow
    _running: set[LaneRequest] = field(default_factory=set)
    _running_of: Counter[str] = field(default_factory=Counter)
    _shares: Counter[tuple[str, str]] = field(default_factory=Counter)
    _ready: OrderedDict[str, FairQueue[LaneRequest]] = field(default_factory=OrderedDict)

    def __contains__(self, lane_request: object) -> bool:
        return lane_request in self._running

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def profiles(self) -> AbstractSet[str]:
        """Those with a request that runs or is ready."""
        return self._running_of.keys() | self._ready.keys()

    def pressing(self, unavailable: Container[str]) -> int:
        """Requests that run, and workflows with a ready one, but for profiles `unavailable`."""
        running = sum(n for profile, n in self._running_of.items() if profile not in unavailable)
        ready = (len(found) for profile, found in self._ready.items() if profile not in unavailable)
        return running + sum(ready)

    def line_up(self, lane_request: LaneRequest, *, first: bool = False) -> None:
        """Its turn will come; `first` of its workflow, or last."""
        request = lane_request.request
        workflows = self._ready.setdefault(request.profile, FairQueue(_is_gone))
        workflows.put(request.workflow_id, lane_request, first=first)

    def take(self, most: int = sys.maxsize) -> LaneRequest | None:
        """The next request, running, of a profile with fewer than `most` running ones."""
        for profile in list(self._ready):
            if self._running_of[profile] < most and (lane_request := self._next_of(profile, most)):
                return self.run(lane_request)
        return None

    def run(self, lane_request: LaneRequest) -> LaneRequest:
        """Let it run, out of turn."""
        request = lane_request.request
        self._running.add(lane_request)
        self.running_in[request.workflow_id] += 1
        self._running_of[request.profile] += 1
        self._shares[request.profile, request.workflow_id] += 1
        return lane_request

    def stop(self, lane_request: LaneRequest) -> None:
        request = lane_request.request
        self._running.remove(lane_request)
        _count_down(self.running_in, request.workflow_id)
        _count_down(self._running_of, request.profile)
        _count_down(self._shares, (request.profile, request.workflow_id))

    def _next_of(self, profile: str, most: int) -> LaneRequest | None:
        """Passes over workflows that have their share, and requests that no longer wait here."""
        workflows, free = self._ready[profile], most - self._running_of[profile]
        found = workflows.next(lambda name: has_share(self._shares[profile, name], free, most))
        if found:
            workflows.serve(found[0])
        if not workflows:
            del self._ready[profile]
        elif found:
            self._ready.move_to_end(profile)
        return found and found[1]


def _is_gone(lane_request: LaneRequest) -> bool:
    return lane_request.state is not RequestState.READY


def _count_down(counter: Counter[_Key], key: _Key) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]  # requests may name any
