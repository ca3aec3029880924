"""The delay before a lane opens again: longer with each loss or failure."""

from services.worker.lane.state.machine import Event

REOPEN_FIRST_S = 0.2
REOPEN_MAX_S = 5.0
SHUT_LOOK_S = 10.0  # between two looks whether what keeps a lane shut is gone


class ReopenBackoff:
    """Counts losses since the lane was last stable, and failures since it was last open."""

    def __init__(self) -> None:
        self._losses = 0
        self._failures = 0

    def lost(self, *, was_stable: bool) -> None:
        """The producer of an open lane is gone; `was_stable`: it had lasted."""
        self._losses = 1 if was_stable else self._losses + 1

    def opened(self) -> None:
        self._failures = 0

    def pause_s(self, event: Event) -> float:
        """Before the opening that follows an event."""
        match event:
            case Event.PRODUCER_LOST | Event.FENCED:
                return _doubled(self._losses - 1) if self._losses > 1 else 0.0
            case Event.OPENING_FAILED:
                self._failures += 1
                return _doubled(self._failures)
            case Event.OPENING_REFUSED:
                return SHUT_LOOK_S
            case _:
                return 0.0


def _doubled(number: int) -> float:
    """Twice as long from one to the next."""
    return min(REOPEN_FIRST_S * 2.0 ** min(number - 1, 16), REOPEN_MAX_S)
