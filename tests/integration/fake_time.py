"""A wrong clock for one process: libfaketime, from the package of that name or from Debian's."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

DEBIANS = Path("/usr/lib")
_HOUR_S = 3_600
_PRINT_TIME = "import time; print(time.time())"


def environment(shift: str | Path) -> Mapping[str, str]:
    """Variables that set the clock off by `shift` (such as -26h), or by what a file says.

    Skips where there is no libfaketime that works, or fails if REQUIRE_FAKETIME=1.
    """
    return variables(_library(), shift)


def variables(library: Path, shift: str | Path) -> Mapping[str, str]:
    """The same, with this library."""
    chosen = (
        {"FAKETIME_TIMESTAMP_FILE": str(shift), "FAKETIME_NO_CACHE": "1"}
        if isinstance(shift, Path)
        else {"FAKETIME": shift}
    )
    # What somebody sets is the time of day; the clock that only runs is beyond everybody's reach.
    return {"LD_PRELOAD": str(library), "FAKETIME_DONT_FAKE_MONOTONIC": "1", **chosen}


@cache
def find_library() -> Path | None:
    """The first libfaketime that works here."""
    return next(filter(_works, _candidates()), None)


def _library() -> Path:
    if library := find_library():
        return library
    reason = "no libfaketime that works here: pip install libfaketime, or apt-get install faketime"
    if os.getenv("REQUIRE_FAKETIME") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def _candidates() -> Iterator[Path]:
    package = find_spec("libfaketime")
    for place in (package.submodule_search_locations or []) if package else []:
        yield from Path(place).rglob("libfaketime.so.1")
    yield from DEBIANS.glob("*/faketime/libfaketime.so.1")


def _works(library: Path) -> bool:
    def printed_time(**variables: str) -> float:
        inherited = os.environ.items()  # noqa: TID251 - all there is
        completed = subprocess.run(
            [sys.executable, "-c", _PRINT_TIME],
            env={**dict(inherited), **variables},
            capture_output=True,
            check=False,
            timeout=30,
        )
        return float(completed.stdout or 0)

    shifted = printed_time(LD_PRELOAD=str(library), FAKETIME="-26h")
    return abs(printed_time() - shifted - 26 * _HOUR_S) < _HOUR_S
