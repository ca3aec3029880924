"""Which rows of the table of A lane's lifecycle were met."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from services.worker.lane.machine import Effect, Event, Machine, State, Step

Pair = tuple[State, Event]


@contextmanager
def noted() -> Iterator[set[Pair]]:
    """Collect the pairs of state and event that machines come to while this lasts."""
    met: set[Pair] = set()
    hear = Machine.hear

    def told(self: Machine, event: Event) -> tuple[Effect | Step, ...]:
        met.add((self.state, event))
        return hear(self, event)

    with mock.patch.object(Machine, "hear", told):
        yield met
