"""One dead letter: why it died, what was asked, and what can be done."""

import base64
import binascii

from aiohttp import web

from answerbus.dead_letter import DeadLetter, Raw
from answerbus.envelope import decode
from answerbus.wire import clip
from services.console.context import CONTEXT
from services.console.pages.render import page
from services.console.views.replay_form import ReplayForm
from services.escaping import plain_json
from services.operators.explain import cause_text, failure_text, problem_text, remedy, written_text

TEXT_BYTES_MAX = 64 * 1024  # of a request or of raw bytes, as they are shown


async def letter(request: web.Request) -> web.Response:
    """By id; its bodies are read again from where they stand."""
    context = request.app[CONTEXT]
    letters = context.feed.state.dead_letters
    found = letters.get(request.query.get("id", ""))
    if found is None:
        text = "There is no dead letter of that id, as far as the topics are kept and were read."
        return page(request, "message.html", 404, title="No such letter", text=text)
    stored = await context.picker.pick(found.place)
    event = decode(stored.value) if stored else None
    body = event if isinstance(event, DeadLetter) else None
    return page(
        request,
        "dead_letter.html",
        letter=found,
        body=body,
        outcome=letters.replay_outcome(found),
        raw=_readable(body.raw) if body and body.raw else None,
        asked=_asked(body) if body else None,
        cause_text=cause_text,
        remedy=remedy,
        failure_text=failure_text,
        problem_text=problem_text,
        written_text=written_text,
        replay_form=ReplayForm(),
        profiles=sorted(context.settings.profiles),
    )


def _asked(body: DeadLetter) -> str | None:
    if body.request is None:
        return None
    return clip(plain_json(body.request.model_dump_json(indent=2)), TEXT_BYTES_MAX)


def _readable(raw: Raw) -> str:
    try:
        found = base64.b64decode(raw.base64 or "")
    except binascii.Error:
        return ""
    return clip(found.decode(errors="replace"), TEXT_BYTES_MAX)
