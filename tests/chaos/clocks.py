"""Wrong clocks of workers: each has a clock of its own, which may be set while it runs."""

from collections.abc import Mapping
from pathlib import Path

from infra.setup_error import SetupError
from tests.integration.fake_time import find_library, variables

RIGHT = "+0"
# Within what a worker takes (300 s), and beyond: it then says so, and goes on by the broker's time.
SHIFTS = ("-200s", "+26h", "-40s", "+200s", "-26h", "+15s", "-8d", "+100s")


class Clocks:
    """A file for each slot of the fleet, which says how far its clock is off."""

    def __init__(self, folder: Path) -> None:
        """Raises SetupError without a libfaketime that works."""
        self._folder = folder
        library = find_library()
        if library is None:
            raise SetupError("There is no libfaketime that works here, which sets clocks.")
        self._library = library

    def environment(self, slot: int) -> Mapping[str, str]:
        """What lets a process have the clock of a slot; a new one is right."""
        path = self._path(slot)
        if not path.exists():
            path.write_text(RIGHT)
        return variables(self._library, path)

    def set_off(self, slot: int, shift: str) -> None:
        """Set it; a worker that reads meanwhile sees the one or the other."""
        fresh = self._path(slot).with_suffix(".new")
        fresh.write_text(shift)
        fresh.replace(self._path(slot))

    def _path(self, slot: int) -> Path:
        return self._folder / f"clock-{slot}"
