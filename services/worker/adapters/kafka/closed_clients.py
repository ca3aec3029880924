"""Frees the memory of Kafka's clients some time after they were closed."""

import asyncio
import gc

COLLECT_AFTER_S = 10.0  # lanes move together: one search is for all of them


class ClosedClients:
    """Looks for garbage once after clients were closed, in all that there is.

    They hold themselves in cycles, and the searches of garbage_collector.py are so rare that they
    do not find a client that has lived long: each lane that moved cost 70 KiB for good.
    """

    def __init__(self) -> None:
        self._due: asyncio.TimerHandle | None = None

    def note(self) -> None:
        """A client was closed."""
        if self._due is None:
            loop = asyncio.get_running_loop()
            self._due = loop.call_later(COLLECT_AFTER_S, self._collect)

    def _collect(self) -> None:
        self._due = None
        gc.collect()
