"""What a client does on the bus, on a FakeBus."""

import asyncio
from typing import Self

from answerbus.client.bus import Bus
from answerbus.client.connection import Connection, request_record
from answerbus.client.errors import NoAnswerYet
from answerbus.client.progress import Published, Tell
from answerbus.client.terminals import terminal_of
from answerbus.client.testing.errors import FakeClientError
from answerbus.client.testing.fake_bus import FakeBus
from answerbus.event import Terminal
from answerbus.request import Request
from answerbus.trace import Trace


class FakeConnection(Connection):
    """Open from the start, and until its `async with` ends; nothing waits."""

    def __init__(self, bus: Bus, fake: FakeBus) -> None:
        super().__init__(bus)
        self._fake = fake
        self._is_open = True

    async def __aenter__(self) -> Self:
        self._is_open = True
        return self

    async def __aexit__(self, *raised: object) -> None:
        self._is_open = False

    async def publish(self, request: Request, trace: Trace | None = None) -> Published:
        """See `Client.publish`."""
        self._check_open()
        await asyncio.sleep(0)
        return self._fake.take(request_record(request, trace)).published

    async def ask(
        self,
        request: Request,
        timeout_s: float | None,
        trace: Trace | None = None,
        tell: Tell | None = None,
    ) -> Terminal:
        """See Connection; raises FakeClientError where nothing was prepared."""
        self._check_open()
        await asyncio.sleep(0)
        taken = self._fake.take(request_record(request, trace))
        if tell is not None:
            tell(taken.published)
        if taken.terminal is not None:
            return taken.terminal
        if not taken.is_prepared:
            raise FakeClientError(
                "The test has prepared no outcome for a request with the instructions "
                f"{request.context.instructions!r}: call `prepare(answered(…))` before."
            )
        raise NoAnswerYet(request.request_id, request.workflow_id, timeout_s)

    async def find(self, request_id: str, workflow_id: str, timeout_s: float | None) -> Terminal:
        """See Connection."""
        self._check_open()
        await asyncio.sleep(0)
        for record in self._fake.outcomes:
            if (terminal := terminal_of(record, {request_id})) is not None:
                return terminal
        raise NoAnswerYet(request_id, workflow_id, timeout_s)

    def _check_open(self) -> None:
        if not self._is_open:
            raise RuntimeError("A Client is used inside of `async with Client(...) as client:`.")
