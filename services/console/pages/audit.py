"""The pages of operators' actions and of the audit's findings."""

from aiohttp import web

from services.console.context import CONTEXT
from services.console.form import known_names, page_number
from services.console.guard import operator_of
from services.console.pages.render import page
from services.console.views.links import address
from services.operators.audit.findings import MEANINGS
from services.operators.dead_letters.moment import as_text
from services.operators.dead_letters.operator_actions import OperatorAction, operator_actions

PAGE_ACTIONS = 25
BREAKS_MAX = 100


async def audit(request: web.Request) -> web.Response:
    known_names(request)
    context = request.app[CONTEXT]
    return page(
        request,
        "audit.html",
        run=context.audits.last,
        meanings=MEANINGS,
        breaks_max=BREAKS_MAX,
        prefix=context.settings.kafka.topic_prefix,
    )


async def verify(request: web.Request) -> web.Response:
    """Begin one, unless one goes on."""
    session = operator_of(request)
    request.app[CONTEXT].audits.start(session.name)
    return web.Response(status=303, headers={"Location": "/audit"})


async def actions(request: web.Request) -> web.Response:
    """All replays and dismissals, the newest first."""
    known_names(request, "page")
    found = operator_actions(request.app[CONTEXT].feed.state.dead_letters)
    number, last = page_number(request, len(found), PAGE_ACTIONS)
    shown = found[number * PAGE_ACTIONS :][:PAGE_ACTIONS]
    rows = [(action, _letters(action)) for action in shown]
    return page(request, "actions.html", rows=rows, number=number, last=last)


def _letters(action: OperatorAction) -> str:
    """The letter, or those of that status; their own times do not say when they were replayed."""
    if action.letters == 1:
        return address("/letters/one", [("id", action.sample.text)])
    return address(
        "/letters/list", [("status", action.kind), ("until", as_text(action.last_ms + 1))]
    )
