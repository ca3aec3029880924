"""The composition root of the console."""

import asyncio
import getpass
import secrets
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from urllib.parse import urlencode

from answerbus.client.bus import Bus
from services.command_line import bus_of
from services.console.access.origins import Origins, advice_on, origins_of
from services.console.access.sessions import Sessions
from services.console.access.tokens import Role, Tokens, may_start
from services.console.application import application
from services.console.context import ConsoleContext
from services.console.guard import Guard
from services.console.oidc.issuer import Issuer
from services.console.oidc.signing_in import issuer_of
from services.console.pages.render import environment
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
from services.http.certificate import ServerCertificate, UnusableCertificate
from services.http.server import HttpServer
from services.operators.adapters.picker import Picker, picking
from services.operators.adapters.profile_costs import profile_costs
from services.operators.dead_letters.forecast import KnownNames
from services.settings import plugins
from services.settings.console import ConsoleSettings
from services.settings.settings import Settings, SetUpError, secret


async def run(settings: Settings, say: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; `say` gets the address to open, and what is to be set.

    Raises SetUpError and BusUnavailable before anything is served.
    """
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with serving(settings) as url:
        say(f"The console is at {url}  (Ctrl-C ends it)")
        if advice := advice_on(settings.console.host, settings.console.public_url):
            say(advice)
        await ended.wait()


@asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[str]:
    """The console at work; gives the address to open. Raises SetUpError and BusUnavailable."""
    chosen, bus, tokens = settings.console, bus_of(settings.kafka), _tokens(settings.console)
    certificate = _certificate(chosen)
    scheme = "https" if certificate else "http"
    listener = _listener(chosen)
    try:
        port = listener.getsockname()[1]
        origins = origins_of(chosen.host, port, chosen.public_url, scheme)
        async with picking(bus) as picker, issuer_of(chosen) as issuer:
            context = _context(
                settings,
                bus,
                picker,
                _guard(chosen, tokens, origins),
                issuer,
            )
            async with _at_work(context, listener, certificate):
                url = chosen.public_url or f"{scheme}://{_name(chosen.host)}:{port}"
                made_up = urlencode({"token": tokens.operator}) if tokens.made_up_for else ""
                login = f"login?{made_up}" if made_up else ""
                yield f"{url.rstrip('/')}/{login}"
    finally:
        listener.close()


def _guard(chosen: ConsoleSettings, tokens: Tokens, origins: Origins) -> Guard:
    is_https, sessions = _is_https(chosen), Sessions()
    return Guard(tokens, origins, is_https, sessions, chosen.session_s, chosen.proxies)


def _context(
    settings: Settings, bus: Bus, picker: Picker, guard: Guard, issuer: Issuer | None
) -> ConsoleContext:
    chosen, kafka, registry = settings.console, settings.kafka, plugins.registry()
    feed = Feed(bus)
    cost_of = profile_costs(settings.profiles, time.time())
    known = KnownNames(settings.profiles.keys() or None, registry, cost_of)
    return ConsoleContext(
        settings=settings,
        registry=registry,
        guard=guard,
        feed=feed,
        poller=Poller(bus, kafka.worker_group, chosen.workers),
        topic_poller=TopicPoller(bus),
        topic_counter=TopicCounter(bus, time.time),
        audits=Audits(bus, time.time, timedelta(seconds=settings.accounts.remember_s)),
        picker=picker,
        prompt_searcher=PromptSearcher(bus),
        spend_reader=SpendReader(bus),
        comparison_reader=ComparisonReader(bus),
        jobs=Jobs(bus, feed, known, time.time),
        controls=ControlWriter(bus),
        templates=environment(),
        static_files=read_static_files(),
        now=time.time,
        issuer=issuer,
    )


@asynccontextmanager
async def _at_work(
    context: ConsoleContext, listener: socket.socket, certificate: ServerCertificate | None
) -> AsyncIterator[None]:
    server = HttpServer(application(context))
    try:
        async with asyncio.TaskGroup() as group:  # the first that fails ends the console
            works = (context.feed, context.poller, context.topic_poller, context.topic_counter)
            tasks = [group.create_task(work.run()) for work in works]
            await server.start(listener, certificate)
            yield
            for task in tasks:
                task.cancel()
    finally:
        await context.jobs.stop()
        await context.audits.stop()
        await server.stop()


def _tokens(chosen: ConsoleSettings) -> Tokens:
    """Those that are set; one is made up where no operator could act. Raises SetUpError."""
    operator, viewer = _token(chosen.operator_token_env), _token(chosen.viewer_token_env)
    named = {name: _token(variable) or "" for name, variable in chosen.operators.items()}
    approvers = {name: _token(variable) or "" for name, variable in chosen.approvers.items()}
    has_issuer = chosen.oidc is not None
    if reason := may_start(chosen.host, operator, viewer, named, approvers, has_issuer=has_issuer):
        raise SetUpError(reason)
    if operator or named or has_issuer:
        return Tokens(operator, viewer, named, approvers)
    made_up = secrets.token_urlsafe()
    return Tokens(made_up, viewer, approvers=approvers, made_up_for=_own_name())


def _token(variable: str | None) -> str | None:
    token = (secret(variable) or "").strip() or None  # files and secrets often end with a line
    if variable and token is None:
        raise SetUpError(f"The variable {variable} is to hold a token of the console: set it.")
    return token


def _is_https(chosen: ConsoleSettings) -> bool:
    """Whether browsers speak TLS with us, or with a proxy in front: cookies are for that alone."""
    return chosen.ssl_certfile is not None or (chosen.public_url or "").startswith("https:")


def _certificate(chosen: ConsoleSettings) -> ServerCertificate | None:
    if chosen.ssl_certfile is None:
        return None
    try:
        return ServerCertificate(chosen.ssl_certfile, chosen.ssl_keyfile)
    except UnusableCertificate as error:
        raise SetUpError(
            f"{error}: correct `console.ssl_certfile` or `console.ssl_keyfile`."
        ) from None


def _own_name() -> str:
    """The user who started the console; in containers the system may not know it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return Role.OPERATOR.value


def _listener(chosen: ConsoleSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in chosen.host else socket.AF_INET
    try:
        return socket.create_server((chosen.host, chosen.port), family=family)
    except OSError as error:
        raise SetUpError(
            f"The console cannot listen at {chosen.host}:{chosen.port} ({error.strerror}): choose "
            "another --port, or 0 for any free one."
        ) from None


def _name(host: str) -> str:
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - see `advice_on`
    return f"[{name}]" if ":" in name else name
