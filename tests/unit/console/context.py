"""The console's pages on a state made by hand: over real HTTP, without Kafka."""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta

from aiohttp import ClientResponse, ClientSession, DummyCookieJar
from aiohttp.test_utils import TestServer, get_unused_port_socket

from answerbus.client.bus import Bus
from answerbus.control import Approval, Cancel, Input
from answerbus.registry import Registry
from answerbus.topics import COMPARISONS
from services.console.access.origins import origins_of
from services.console.access.sessions import Sessions
from services.console.access.tokens import Tokens
from services.console.application import application, routes
from services.console.context import ConsoleContext
from services.console.guard import COOKIE, Guard
from services.console.oidc.signing_in import issuer_of
from services.console.pages.render import environment
from services.console.state.spend_groups import SpendGroups, Steps
from services.console.static_files import read_static_files
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
from services.operators.adapters.picker import Picker, newest_within
from services.operators.adapters.prompt_search import PromptSearch
from services.operators.dead_letters.forecast import KnownNames
from services.operators.records.prompt_text import PROMPT_TOPICS, PromptText
from services.operators.records.stored import RecordPosition, Stored
from services.operators.records.summary import summarize
from services.settings.settings import Settings
from tests.unit.operators.stored_examples import NOON_MS

OPERATOR, VIEWER = "the-operators-own-token", "the-viewers-own-token"
NIGHT = "the-token-of-one-operator"  # whose name is night@acme
APPROVER = "the-token-of-one-approver"  # whose name is ann@acme
TOKENS = Tokens(OPERATOR, VIEWER, {"night@acme": NIGHT}, {"ann@acme": APPROVER})
NOWHERE = Bus("127.0.0.1:1", "answerbus", {})


class Shelf(Picker):
    """Gives records from memory."""

    def __init__(self, records: Iterable[Stored]) -> None:
        self._records = {record.place: record for record in records}

    async def pick_all(
        self, places: Iterable[RecordPosition], bytes_max: int | None = None
    ) -> list[Stored]:
        found = [self._records[place] for place in places if place in self._records]
        return found if bytes_max is None else newest_within(bytes_max, found)


class ShelfSearcher(PromptSearcher):
    """Looks into records in memory."""

    def __init__(self, records: Iterable[Stored]) -> None:
        super().__init__(NOWHERE)
        self._records = list(records)

    async def search(self, text: str) -> PromptSearch:
        asked = [one for one in self._records if one.topic in PROMPT_TOPICS]
        found = [match for one in asked if (match := PromptText(text).match(one))]
        return PromptSearch(found, len(asked))


class ShelfSpending(SpendReader):
    """Adds up records in memory."""

    def __init__(self, records: Iterable[Stored]) -> None:
        super().__init__(NOWHERE)
        self._records = list(records)

    async def read(self, keys: Sequence[str], steps: Steps) -> tuple[SpendGroups, bool]:
        groups = SpendGroups(keys, steps)
        for record in self._records:
            groups.take(summarize(record))
        return groups, False


class ShelfComparisons(ComparisonReader):
    """Reads records in memory."""

    def __init__(self, records: Iterable[Stored]) -> None:
        super().__init__(NOWHERE)
        self._shelf = [record for record in records if record.topic is COMPARISONS]

    async def _records(self) -> AsyncIterator[Stored]:
        for record in self._shelf:
            yield record


class NotedControls(ControlWriter):
    """Keeps what would be written."""

    def __init__(self) -> None:
        super().__init__(NOWHERE)
        self.written: list[Approval | Input | Cancel] = []

    async def write(self, control: Approval | Input | Cancel) -> None:
        self.written.append(control)


@dataclass(frozen=True)
class Site:
    """A server, and what it was made of."""

    context: ConsoleContext
    url: str
    client: ClientSession

    async def log_in(self, token: str) -> str:
        """The cookie of a new session."""
        response = await self.post("/login", {"token": token})
        assert response.status == 303, await response.text()
        return response.cookies[COOKIE].value

    async def get(self, path: str, cookie: str = "", **headers: str) -> ClientResponse:
        return await self.client.get(
            self.url + path,
            headers={"Cookie": f"{COOKIE}={cookie}", **headers},
            allow_redirects=False,
        )

    async def post(
        self,
        path: str,
        form: dict[str, str],
        cookie: str = "",
        origin: str | None = "",
        **headers: str,
    ) -> ClientResponse:
        """As a page of the console would, unless told otherwise; no origin is None."""
        sent = {"Cookie": f"{COOKIE}={cookie}", **headers}
        if origin is not None:
            sent["Origin"] = origin or self.url
        return await self.client.post(
            self.url + path, data=form, headers=sent, allow_redirects=False
        )


def paths(method: str) -> list[str]:
    """The addresses that answer a method, but for those with a name or a number in them."""
    found = (route for route in routes() if route.method == method)
    return [route.path for route in found if "{" not in route.path]


@asynccontextmanager
async def site(
    *records: Stored,
    settings: Settings | None = None,
    tokens: Tokens = TOKENS,
) -> AsyncIterator[Site]:
    """The records have been read to their end, at noon."""
    settings, listener = settings or Settings(), get_unused_port_socket("127.0.0.1")
    port = listener.getsockname()[1]
    feed = Feed(NOWHERE)
    for record in records:
        feed.state.take(record)
    feed.progress.caught_up = True
    known = KnownNames(None, Registry())
    context = ConsoleContext(
        settings=settings,
        registry=Registry(),
        guard=Guard(
            tokens,
            origins_of("127.0.0.1", port, None),
            False,
            Sessions(),
            proxies=settings.console.proxies,
        ),
        feed=feed,
        poller=Poller(NOWHERE, "group", ()),
        topic_poller=TopicPoller(NOWHERE),
        topic_counter=TopicCounter(NOWHERE, lambda: NOON_MS / 1000),
        audits=Audits(NOWHERE, lambda: NOON_MS / 1000, timedelta(days=7)),
        picker=Shelf(records),
        prompt_searcher=ShelfSearcher(records),
        spend_reader=ShelfSpending(records),
        comparison_reader=ShelfComparisons(records),
        jobs=Jobs(NOWHERE, feed, known, lambda: NOON_MS / 1000),
        controls=NotedControls(),
        templates=environment(),
        static_files=read_static_files(),
        now=lambda: NOON_MS / 1000,
    )
    async with issuer_of(settings.console) as issuer:
        context = replace(context, issuer=issuer)
        server = TestServer(application(context), socket_factory=lambda *_: listener)
        async with server, ClientSession(cookie_jar=DummyCookieJar()) as client:
            yield Site(context, f"http://127.0.0.1:{port}", client)
            await context.jobs.stop()
            await context.audits.stop()
