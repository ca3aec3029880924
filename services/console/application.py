"""The console over HTTP: its addresses, and how errors are answered."""

import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from aiohttp import web

from answerbus.client.errors import BusUnavailable
from services.console.context import CONTEXT, ConsoleContext
from services.console.pages import (
    arrival,
    audit,
    comparisons,
    dead_letter,
    dead_letters,
    figures,
    find,
    frame,
    job,
    login,
    money,
    money_groups,
    overview,
    reference,
    runs,
    sign_in,
    static_file,
    tail,
    workflow,
)
from services.console.pages.render import clipped, page
from services.console.static_files import PATH as STATIC_PATH
from services.console.streams import STREAMS, Streams, streamed
from services.console.strict_headers import strict_headers
from services.http.server import without_name

FORM_BYTES_MAX = 1024 * 1024
ERROR_CHARS_MAX = 2_000  # of what was sent, which an error may quote

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_log = logging.getLogger(__name__)


def application(context: ConsoleContext) -> web.Application:
    """All pages, behind the guard."""
    app = web.Application(
        middlewares=[_hardened, _errors, _guarded, streamed], client_max_size=FORM_BYTES_MAX
    )
    app[CONTEXT], app[STREAMS] = context, Streams()
    app.on_shutdown.append(app[STREAMS].close)
    app.on_response_prepare.append(without_name)
    app.add_routes(routes())
    return app


def routes() -> list[web.RouteDef]:
    """All addresses, and what answers there."""
    return [
        web.get("/login", login.ask),
        web.post("/login", login.enter),
        web.get("/login/issuer", sign_in.begin),
        web.get(sign_in.BACK, sign_in.come_back),
        web.get("/login/logout", sign_in.log_out_there),
        web.post("/logout", login.leave),
        web.post("/theme", frame.choose_theme),
        web.get("/find", find.find),
        web.get("/", overview.overview),
        web.get("/profiles", figures.profiles),
        web.get("/profiles/comparisons", comparisons.comparisons),
        web.get(comparisons.PATH, comparisons.comparison),
        web.get("/lanes", figures.lanes),
        web.get("/money", money.money),
        web.get("/money/workflows", money.workflows),
        web.get("/money/groups", money_groups.groups),
        web.get("/money/groups.csv", money_groups.csv_file),
        web.get("/money.json", money.data),
        web.get("/letters", dead_letters.groups),
        web.get("/letters/list", dead_letters.listed),
        web.post("/letters/plan", job.prepare),
        web.post("/letters/jobs", job.start),
        web.get(r"/letters/jobs/{number:\d{1,9}}", job.job),
        web.get("/letters/one", dead_letter.dead_letter),
        web.get("/workflow", workflow.workflow),
        web.get("/runs", runs.runs),
        web.post("/runs/decide", runs.decide),
        web.post("/runs/answer", runs.answer),
        web.post("/runs/cancel", runs.cancel),
        web.get("/tail", tail.tail),
        web.get("/audit", audit.audit),
        web.post("/audit", audit.verify),
        web.get("/actions", audit.actions),
        web.get("/contracts", reference.contracts),
        web.get("/topics", reference.topics),
        web.get("/asyncapi.json", reference.asyncapi),
        web.get(r"/runbooks/{name:[a-z-]{1,40}}", reference.runbook),
        web.get(f"{STATIC_PATH}{{name}}", static_file.static_file),
    ]


@web.middleware
async def _hardened(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Only for requests to our hosts, with headers that make browsers strict."""
    context = request.app[CONTEXT]
    if context.guard.origins.is_host(request.headers.get("Host")):
        response = await handler(request)
    else:
        text = (
            "This console is not reached by that name: set `console.public_url` to the address "
            "that is typed into the browser, and start it again."
        )
        response = web.Response(status=HTTPStatus.MISDIRECTED_REQUEST, text=text)
    if not response.prepared:  # else they were sent before: see streams.py
        for name, value in strict_headers(context.static_files.style_source).items():
            response.headers.setdefault(name, value)  # what may be kept says so itself
    return response


@web.middleware
async def _guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        await request.app[CONTEXT].guard.admit(request)
    except web.HTTPSeeOther:
        return arrival.without_session(request)
    return await handler(request)


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """The error as a page, without the data that caused it."""
    try:
        return await handler(request)
    except web.HTTPRedirection as answer:
        return web.Response(status=answer.status, headers={"Location": answer.headers["Location"]})
    except web.HTTPException as answer:
        text = clipped(answer.text or answer.reason, ERROR_CHARS_MAX)
        return page(request, "message.html", answer.status, title=answer.reason, text=text)
    except (BusUnavailable, TimeoutError) as error:
        text = str(error) or "Kafka took too long to give the records: try again."
        return page(request, "message.html", 503, title="Kafka cannot be used", text=text)
    except Exception as error:
        _log.exception("%s failed", request.path)
        text = f"The page failed ({type(error).__name__}); the log says where."
        return page(request, "message.html", 500, title="An error of ours", text=text)
