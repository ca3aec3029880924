"""One worker on one broker, and the requests published so far: the stage of most lane tests."""

import asyncio
from typing import Any, Self

from answerbus.topics import ATTEMPTS
from tests.unit.worker.lane.fakes import Broker
from tests.unit.worker.lane.world import (
    FakeProvider,
    Worker,
    audit,
    context,
    done,
    events,
    publish,
    until,
)


class Stage:
    """See the module; `settings` are those of the worker's context."""

    def __init__(self, provider: FakeProvider | None = None, **settings: Any) -> None:
        self.broker, self.provider = Broker(), provider or FakeProvider()
        self.context = context(self.provider, **settings)
        self.worker = Worker(self.broker, self.context)
        self.names: list[str] = []

    @classmethod
    async def calling(cls, *names: str, **stage: Any) -> Self:
        """A stage whose worker found requests of these names, and has called for the first."""
        made = cls(**stage)
        made.publish(*names)
        await made.worker.open()
        await made.called(names[0])
        return made

    def publish(self, *names: str, **more: Any) -> None:
        for name in names:
            publish(self.broker, name, **more)
            self.names.append(name)

    async def called(self, name: str) -> None:
        await until(lambda: self.provider.made_for(name) != [])

    async def all_done(self, limit_s: float = 600.0) -> None:
        await until(lambda: done(self.broker, self.names), limit_s)

    async def end(self) -> None:
        """Leave, and look whether everything was right."""
        await self.all_done()
        await self.worker.drain()
        audit(self.broker, self.provider)

    def outcomes(self) -> list[str]:
        return [attempt["outcome"] for attempt in events(self.broker, ATTEMPTS)]


def now() -> float:
    return asyncio.get_running_loop().time()
