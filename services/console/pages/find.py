"""From a text that someone typed to the page that is about it."""

from urllib.parse import urlencode

from aiohttp import web

from services.console.context import CONTEXT
from services.console.form import known_names


async def find(request: web.Request) -> web.Response:
    """A dead letter's id leads to it, a workflow's to its page; else letters with that text."""
    known_names(request, "q")
    text = request.query.get("q", "").strip()
    state = request.app[CONTEXT].feed.state
    if text and state.dead_letters.get(text) is not None:
        location = f"/letters/one?{urlencode({'id': text})}"
    elif text and state.workflows.find(text):
        location = f"/workflow?{urlencode({'id': text})}"
    else:
        location = f"/letters/list?{urlencode({'q': text, 'status': 'any'})}"
    return web.Response(status=303, headers={"Location": location})
