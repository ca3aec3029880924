"""How soon a lane is opened again: what is lost, or fails, again and again ever more slowly."""

REOPEN_FIRST_S = 0.2
REOPEN_MAX_S = 5.0


class Pace:
    """Counts losses since the lane was last calm, and failures since it was last open."""

    def __init__(self) -> None:
        self._losses = 0
        self._failures = 0

    def lost(self, *, is_calm: bool) -> None:
        """The producer of an open lane is gone; `is_calm`: it had lasted."""
        self._losses = 1 if is_calm else self._losses + 1
        self._failures = 0

    def opened(self) -> None:
        """It is open again."""
        self._failures = 0

    @property
    def after_loss_s(self) -> float:
        """Nothing after the first."""
        return _pause_s(self._losses - 1) if self._losses > 1 else 0.0

    def after_failure_s(self) -> float:
        """Another opening has failed."""
        self._failures += 1
        return _pause_s(self._failures)


def _pause_s(number: int) -> float:
    """Doubles from one to the next."""
    return min(REOPEN_FIRST_S * 2.0 ** min(number - 1, 16), REOPEN_MAX_S)
