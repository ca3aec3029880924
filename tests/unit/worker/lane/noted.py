"""Which rows of the table of A lane's lifecycle were met."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from services.worker.lane.state.machine import Action, Event, State, StateMachine

Pair = tuple[State, Event]


@contextmanager
def noted() -> Iterator[set[Pair]]:
    """Collect the pairs of state and event that machines come to while this lasts."""
    met: set[Pair] = set()
    hear = StateMachine.handle_event

    def recorded(self: StateMachine, event: Event) -> tuple[Action, ...]:
        met.add((self.state, event))
        return hear(self, event)

    with mock.patch.object(StateMachine, "handle_event", recorded):
        yield met
