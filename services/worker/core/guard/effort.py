"""How much work may be done here: where an event loop waits, what is more is left to others.

Bounds are in nanoseconds of an ordinary core, counted before the work is done.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

LOOP_NS = 20_000_000  # of checking one answer in an event loop, which has other things to do


class TooMuchWorkError(Exception):
    """The work was not done: it is more than there is time for here."""


@dataclass(slots=True)
class _Effort:
    left_ns: int


_SPARED: ContextVar[_Effort | None] = ContextVar("spared", default=None)


@contextmanager
def sparing(most_ns: int = LOOP_NS) -> Iterator[None]:
    """Within this, `spend` raises TooMuchWorkError once that much was spent."""
    token = _SPARED.set(_Effort(most_ns))
    try:
        yield
    finally:
        _SPARED.reset(token)


def spend(work_ns: int) -> None:
    """Charge work that is about to be done, if there is a limit. Raises TooMuchWorkError."""
    effort = _SPARED.get()
    if effort is None:
        return
    effort.left_ns -= work_ns
    if effort.left_ns < 0:
        raise TooMuchWorkError


def affordable(most_ns: int) -> int:
    """The effort left, capped: beyond that, nothing needs to be counted."""
    effort = _SPARED.get()
    return most_ns if effort is None else min(effort.left_ns, most_ns)
