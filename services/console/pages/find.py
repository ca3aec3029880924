"""From a text that someone typed to the page that is about it, or to the prompts that have it."""

from urllib.parse import urlencode

from aiohttp import web

from services.console.access.tokens import Role
from services.console.context import CONTEXT
from services.console.form import is_streamed, known_names
from services.console.guard import session_of
from services.console.pages.chosen import list_address
from services.console.pages.render import page
from services.console.views.filters import DeadLetterFilters
from services.operators.adapters.prompt_search import as_data
from services.operators.records.prompt_text import TEXT_CHARS_MAX

_JSON = "application/json"


async def find(request: web.Request) -> web.Response:
    """A dead letter's id leads to it, a workflow's to its page; else what has that text.

    So does an id that several workflows have used. Prompts are for operators alone; programs that
    accept JSON get it.
    """
    known_names(request, "q")
    text = request.query.get("q", "").strip()[:TEXT_CHARS_MAX]
    context = request.app[CONTEXT]
    state = context.feed.state
    if text and (named := state.dead_letters.named(text)):
        one = f"/letters/one?{urlencode({'id': text})}"
        return _to(one if len(named) == 1 else list_address(text))
    if text and state.workflows.find(text):
        return _to(f"/workflow?{urlencode({'id': text})}")
    if not text or session_of(request).role is not Role.OPERATOR:
        return _to(list_address(text))
    if is_streamed(request):  # the frame alone changes: Kafka is searched when the page is loaded
        return page(request, "message.html", title=text, text="")
    found = await context.prompt_searcher.search(text)
    dead_letters = len(state.dead_letter_cache.of(DeadLetterFilters(status=None, text=text)))
    if request.headers.get("Accept") == _JSON:
        return web.json_response(as_data(found))
    href = list_address(text)
    return page(
        request,
        "find.html",
        text=text,
        found=found,
        dead_letters=dead_letters,
        dead_letters_href=href,
    )


def _to(location: str) -> web.Response:
    return web.Response(status=303, headers={"Location": location})
