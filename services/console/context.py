"""The objects that all pages share, made once in main.py."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from aiohttp import web
from jinja2 import Environment

from answerbus.registry import Registry
from services.console.access.sessions import Holder
from services.console.guard import Guard
from services.console.oidc.issuer import Issuer
from services.console.static_files import StaticFiles
from services.console.tasks.audits import Audits
from services.console.tasks.comparison_reading import ComparisonReader
from services.console.tasks.control_writer import ControlWriter
from services.console.tasks.feed import Feed
from services.console.tasks.jobs import Jobs
from services.console.tasks.polling import Poller
from services.console.tasks.prompt_searching import PromptSearcher
from services.console.tasks.spend_reading import SpendReader
from services.console.tasks.topic_counting import TopicCounter
from services.console.tasks.topic_polling import TopicPoller
from services.operators.adapters.picker import Picker
from services.settings.settings import Settings


class LongPages:
    """A person who asks for many at once waits for each; others wait for one of them at most."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._turns_of: WeakValueDictionary[Holder, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def turn_of(self, holder: Holder) -> AsyncIterator[None]:
        """Within this, nothing else is made that waits for a turn."""
        own = self._turns_of.setdefault(holder, asyncio.Lock())
        async with own, self._turn:
            yield


@dataclass(frozen=True)
class ConsoleContext:
    """`now` gives seconds since 1970; without an `issuer` people log in with tokens."""

    settings: Settings
    registry: Registry
    guard: Guard
    feed: Feed
    poller: Poller
    topic_poller: TopicPoller
    topic_counter: TopicCounter
    audits: Audits
    picker: Picker
    prompt_searcher: PromptSearcher
    spend_reader: SpendReader
    comparison_reader: ComparisonReader
    jobs: Jobs
    controls: ControlWriter
    templates: Environment
    static_files: StaticFiles
    now: Callable[[], float]
    issuer: Issuer | None = None
    long_pages: LongPages = field(default_factory=LongPages)


CONTEXT: web.AppKey[ConsoleContext] = web.AppKey("context", ConsoleContext)
