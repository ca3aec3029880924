"""What one request holds of the limits of its profile and of the worker while it is tried."""

from services.worker.core.reply import Reply
from services.worker.limits.gate import Gate
from services.worker.limits.slots import Place, Slots


class Visit:
    """A place at both, then a slot at both; `leave` gives back whatever is held, and is a must."""

    def __init__(self, gate: Gate, slots: Slots) -> None:
        self._gate, self._slots = gate, slots
        self._place: Place | None = None
        self._own: Place | None = None
        self._gate_since: float | None = None
        self._slots_since: float | None = None

    async def enter(self, key: str, tokens: int) -> None:
        """Wait for the right to spend; fairly by key, as long as it takes."""
        self._place = await self._gate.enter(key, tokens)
        self._own = await self._slots.enter(key, tokens)

    async def begin_call(self, spend_s: float) -> None:
        """Wait for a slot; `spend_s` is what the permit took."""
        self._gate_since = await self._gate.begin_call(spend_s)
        self._slots_since = await self._slots.begin_call(spend_s)

    @property
    def is_welcome(self) -> bool:
        """Whether the profile may be called now: something may have happened since `enter`."""
        return self._place is not None and self._gate.allows(self._place)

    def use(self) -> None:
        """The call begins: what it takes of the minute is gone."""
        if self._place is not None:
            self._place.is_used = True

    def report(self, reply: Reply, duration_s: float) -> None:
        """Let the profile's limits learn what the call came to."""
        if self._place is not None:
            self._gate.report(reply, duration_s, self._place)

    def leave(self) -> None:
        """Give back slots and places, as far as they are still held."""
        if self._slots_since is not None:
            self._slots.end_call(self._slots_since)
        if self._gate_since is not None:
            self._gate.end_call(self._gate_since)
        if self._own is not None:
            self._slots.leave(self._own)
        if self._place is not None:
            self._gate.leave(self._place)
        self._slots_since = self._gate_since = self._own = self._place = None
