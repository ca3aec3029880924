"""Which rows of the tables of a lane's life, and of a request's in it, were met."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from services.worker.core.request import life
from services.worker.core.request.lane_request import LaneRequest
from services.worker.lane.state.machine import Action, Event, State, StateMachine

Pair = tuple[State, Event] | tuple[life.RequestState, life.RequestEvent]


@contextmanager
def noted() -> Iterator[set[Pair]]:
    """Collect the pairs of state and event that lanes and requests come to while this lasts."""
    met: set[Pair] = set()
    of_lane, of_request = StateMachine.handle_event, LaneRequest.handle_event

    def lane_event(self: StateMachine, event: Event) -> tuple[Action, ...]:
        met.add((self.state, event))
        return of_lane(self, event)

    def request_event(self: LaneRequest, event: life.RequestEvent, **more: Any) -> None:
        met.add((self.state, event))
        of_request(self, event, **more)

    with (
        mock.patch.object(StateMachine, "handle_event", lane_event),
        mock.patch.object(LaneRequest, "handle_event", request_event),
    ):
        yield met
