"""A lane's next look at its queue: soon, or at the earliest requested time."""

import asyncio
from collections.abc import Callable


class Wakeup:
    """Calls `pump` once for all that ask for it soon, and `on_alarm` when an alarm goes off."""

    def __init__(self, pump: Callable[[], None], on_alarm: Callable[[], None]) -> None:
        self._pump, self._on_alarm = pump, on_alarm
        self._will_pump = False
        self._alarm: asyncio.TimerHandle | None = None

    def soon(self) -> None:
        """In the next turn of the loop: many requests end in one transaction."""
        if not self._will_pump:
            self._will_pump = True
            asyncio.get_running_loop().call_soon(self._pump_now)

    def after(self, delay_s: float) -> None:
        """Unless the alarm goes off sooner: what it looks after is asked for anew then."""
        loop = asyncio.get_running_loop()
        due_at = loop.time() + delay_s
        if self._alarm:
            if self._alarm.when() <= due_at:
                return
            self._alarm.cancel()
        self._alarm = loop.call_at(due_at, self._go_off)

    def cancel(self) -> None:
        """No alarm goes off any more, until the next is asked for."""
        if self._alarm:
            self._alarm.cancel()
            self._alarm = None

    def _pump_now(self) -> None:
        self._will_pump = False
        self._pump()

    def _go_off(self) -> None:
        self._alarm = None
        self._on_alarm()
