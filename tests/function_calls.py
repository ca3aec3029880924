"""How many functions some work calls, of Python and of C: the same on a slow machine."""

import sys
from collections.abc import Callable


def functions_called(work: Callable[[], object]) -> int:
    """In this thread, while `work` runs."""
    called = 0

    def count(_frame: object, event: str, _about: object) -> None:
        nonlocal called
        called += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return called
