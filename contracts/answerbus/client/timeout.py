"""How long a client waits for the outcome of a request, unless the caller says."""

from collections.abc import Callable
from typing import Literal, TypeAlias

from answerbus.request import Request

Timeout: TypeAlias = float | Literal["default"] | None
"""Seconds; None: for ever."""

TIMEOUT_S_DEFAULT = 120.0
OUTCOME_DELAY_S_MAX = 60.0  # from the deadline of a request to its outcome, while a worker runs


def timeout_s_default(request: Request) -> float:
    """A run is waited for until its deadline has passed: it may wait for tools and for people."""
    if request.agent is None:
        return TIMEOUT_S_DEFAULT
    return request.ttl_s + OUTCOME_DELAY_S_MAX


def timeout_s_of(timeout: Timeout, request: Request) -> float | None:
    """The seconds that were said, or those of the request."""
    return timeout_s_default(request) if timeout == "default" else timeout


class TimeLeft:
    """The rest of a limit in seconds over several waits, from the first on; None: no limit."""

    def __init__(self, limit_s: float | None, now: Callable[[], float]) -> None:
        self._limit_s, self._now = limit_s, now
        self._began: float | None = None

    def __call__(self) -> float | None:
        """In seconds, 0 at the end."""
        if self._limit_s is None:
            return None
        if self._began is None:
            self._began = self._now()
            return self._limit_s
        return max(self._limit_s - (self._now() - self._began), 0.0)
