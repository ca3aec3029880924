"""`audit verify` asked for on a page, done in the background; the last verdict is kept."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from answerbus.client.bus import Bus
from answerbus.client.errors import BusUnavailable
from services.operators.adapters.verify import verify
from services.operators.audit.verified import Verified

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class AuditRun:
    """One verification; `ended_ms` is None while it goes on."""

    by: str
    began_ms: int
    read: int = 0
    total: int = 0
    ended_ms: int | None = None
    verified: Verified | None = None
    error: str | None = None


class Audits:
    """One at a time; `last` is the one that goes on, or the last one that ended.

    `account_memory` is how long workers know an account after its last event.
    """

    def __init__(self, bus: Bus, now: Callable[[], float], account_memory: timedelta) -> None:
        self._bus, self._now, self._account_memory = bus, now, account_memory
        self.last: AuditRun | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self, by: str) -> None:
        """Begin, unless one goes on."""
        if self._task is None or self._task.done():
            self.last = AuditRun(by, self._now_ms())
            self._task = asyncio.create_task(self._run(self.last))
            _log.info("an audit was begun by %s", by)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, audit: AuditRun) -> None:
        def progress(read: int, total: int) -> None:
            audit.read, audit.total = read, total

        try:
            audit.verified = await verify(self._bus, None, progress, self._account_memory)
        except (BusUnavailable, TimeoutError) as error:
            audit.error = str(error) or "Kafka took too long: try again."
        except Exception as error:
            audit.error = f"It failed ({type(error).__name__}); the log says where."
            _log.exception("the audit failed")
        finally:
            audit.ended_ms = self._now_ms()

    def _now_ms(self) -> int:
        return int(self._now() * 1000)
