"""From a text that someone typed to the page that is about it."""

from urllib.parse import urlencode

from aiohttp import web

from services.console.context import CONTEXT
from services.console.form import known_names
from services.console.pages.chosen import list_address


async def find(request: web.Request) -> web.Response:
    """A dead letter's id leads to it, a workflow's to its page; else letters with that text.

    So does an id that several workflows have used.
    """
    known_names(request, "q")
    text = request.query.get("q", "").strip()
    state = request.app[CONTEXT].feed.state
    if text and len(state.dead_letters.named(text)) == 1:
        location = f"/letters/one?{urlencode({'id': text})}"
    elif text and state.workflows.find(text):
        location = f"/workflow?{urlencode({'id': text})}"
    else:
        location = list_address(text)
    return web.Response(status=303, headers={"Location": location})
