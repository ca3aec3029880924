"""The live tail: the newest records, without anything that was said in them."""

from itertools import islice

from aiohttp import web

from services.console.context import CONTEXT
from services.console.form import known_names
from services.console.pages.render import page
from services.console.views.record_line import what_of
from services.operators.records.record_filter import RecordFilter

SHOWN_MAX = 100
KINDS = (
    *("request", "attempt", "retry_request", "retry_ended"),
    *("result", "unvalidated_result", "refusal", "dead_letter"),
    *("replayed", "dismissed", "undecodable"),
)


async def tail(request: web.Request) -> web.Response:
    """All kinds, or those asked for."""
    known_names(request, "kind", "workflow")
    kinds = frozenset(request.query.getall("kind", []))
    if unknown := sorted(kinds.difference(KINDS)):
        raise web.HTTPBadRequest(text=f"kind={unknown[0]!r} is none of {', '.join(KINDS)}.")
    workflow_id = request.query.get("workflow", "").strip()
    wanted = RecordFilter(workflow_id or None, kinds=kinds or None)
    found = filter(wanted.admits, request.app[CONTEXT].feed.state.tail())
    return page(
        request,
        "tail.html",
        seen=list(islice(found, SHOWN_MAX)),
        what_of=what_of,
        kinds=KINDS,
        wanted=kinds,
        workflow=workflow_id,
    )
