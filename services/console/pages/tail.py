"""The live tail: the newest records, without anything that was said in them."""

from aiohttp import web

from services.console.context import CONTEXT
from services.console.pages.render import page

SHOWN_MAX = 100
KINDS = (
    *("request", "attempt", "retry_request", "retry_ended"),
    *("result", "unvalidated_result", "refusal", "dead_letter"),
    *("replayed", "dismissed", "undecodable"),
)


async def tail(request: web.Request) -> web.Response:
    """All kinds, or those asked for."""
    wanted = [kind for kind in request.query.getall("kind", []) if kind in KINDS]
    workflow_id = request.query.get("workflow", "").strip()
    seen = [
        one
        for one in request.app[CONTEXT].feed.state.tail()
        if (not wanted or one.kind in wanted) and workflow_id in ("", one.workflow_id)
    ]
    return page(
        request,
        "tail.html",
        seen=seen[:SHOWN_MAX],
        kinds=KINDS,
        wanted=wanted,
        workflow=workflow_id,
    )
