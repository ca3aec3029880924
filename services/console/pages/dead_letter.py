"""One dead letter: its cause, request and answers, and the possible actions."""

import asyncio
import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from answerbus.dead_letter import DeadLetter, Raw
from answerbus.envelope import decode
from answerbus.failure import Invalid
from answerbus.registry import Registry
from answerbus.request import ContractRef, InlineRef, Prior
from answerbus.wire import clip
from services.console.context import CONTEXT
from services.console.form import known_names
from services.console.guard import session_of
from services.console.pages.chosen import list_address
from services.console.pages.render import long_page, page
from services.console.views.marked_json import CodeLine, difference, marked_json, schema_around
from services.console.views.replay_form import ReplayForm
from services.console.views.schema_place import schema_place
from services.operators.dead_letters.estimate import estimated_cost
from services.operators.dead_letters.remedy import remedy_of
from services.operators.explain import cause_text, failure_text, problem_text, written_text
from services.operators.records.stored import Stored
from services.text.escaping import plain_json

TEXT_BYTES_MAX = 64 * 1024  # of a request or of raw bytes, as they are shown
_OUTPUT = "/output"  # where a wrapped answer holds what obeys the schema


@dataclass(frozen=True, slots=True)
class AttemptTab:
    """One attempt: what was written with its faults, the rules beside it, and what has changed."""

    prior: Prior
    problems: Sequence[str]
    answer: Sequence[CodeLine]
    rules: Sequence[CodeLine]
    changed: Sequence[CodeLine] | None


async def dead_letter(request: web.Request) -> web.Response:
    """By id; its bodies are read again from where they stand. `attempt` chooses a tab.

    An id of several workflows leads to the list of their dead letters.
    """
    known_names(request, "id", "attempt")
    context = request.app[CONTEXT]
    dead_letters = context.feed.state.dead_letters
    id_ = request.query.get("id", "")
    named = dead_letters.named(id_)
    if len(named) > 1:
        return web.Response(status=303, headers={"Location": list_address(id_)})
    found = next(iter(named), None)
    if found is None:
        text = "There is no dead letter of that id, as far as the topics are kept and were read."
        return page(request, "message.html", 404, title="No such dead letter", text=text)
    async with context.long_pages.turn_of(session_of(request).holder):
        stored = await context.picker.pick(found.place)
        asked = request.query.get("attempt")
        return await long_page(
            request,
            "dead_letter.html",
            dead_letter=found,
            outcome=dead_letters.replay_outcome(found),
            cause_text=cause_text,
            failure_text=failure_text,
            written_text=written_text,
            cost=estimated_cost([found]),
            replay_form=ReplayForm(),
            profiles=sorted(context.settings.profiles),
            **await asyncio.to_thread(_shown, stored, asked, context.registry),
        )


def _shown(stored: Stored | None, attempt: str | None, registry: Registry) -> Mapping[str, Any]:
    """The content of its record, if that is still kept. Raises HTTPBadRequest."""
    event = decode(stored.value) if stored else None
    body = event if isinstance(event, DeadLetter) else None
    return {
        "body": body,
        "tab": _tab(body, attempt, registry) if body else None,
        "raw": _readable(body.raw) if body and body.raw else None,
        "asked": _asked(body) if body else None,
        "remedy": remedy_of(body) if body else None,
    }


def _tab(dead_letter: DeadLetter, asked: str | None, registry: Registry) -> AttemptTab | None:
    """The attempt that is asked for; else the last one. Raises HTTPBadRequest."""
    if not dead_letter.prior:
        return None
    places = [n for n, prior in enumerate(dead_letter.prior) if str(prior.attempt) == asked]
    if asked is not None and not places:
        raise web.HTTPBadRequest(text=f"This dead letter has no attempt {clip(asked, 64)!r}.")
    at = places[0] if places else len(dead_letter.prior) - 1
    prior, before = dead_letter.prior[at], dead_letter.prior[at - 1] if at else None
    problems = prior.failure.problems if isinstance(prior.failure, Invalid) else ()
    texts = [problem_text(problem) for problem in problems]
    answer = changed = None
    if prior.answer is not None:
        marks = zip((problem.path for problem in problems), texts, strict=True)
        answer = marked_json(prior.answer, marks)
        if before is not None and before.answer is not None:
            changed = difference(before.answer, prior.answer)
    rules = _rules(dead_letter, [problem.path for problem in problems], registry)
    return AttemptTab(prior, texts, answer or (), rules, changed)


def _rules(dead_letter: DeadLetter, paths: Sequence[str], registry: Registry) -> list[CodeLine]:
    """The schema's rules at those places; nothing where there is no schema, or no problem."""
    schema: Any = None
    match dead_letter.request and dead_letter.request.answer_schema:
        case ContractRef() as ref:
            contract = registry.find(ref)
            schema = contract.schema() if contract else None
        case InlineRef() as ref:
            schema = ref.json_schema
            if ref.wrapped:
                paths = [path.removeprefix(_OUTPUT) for path in paths]
        case _:
            pass
    if schema is None or not paths:
        return []
    return schema_around(schema, {schema_place(schema, path) for path in paths})


def _asked(body: DeadLetter) -> str | None:
    if body.request is None:
        return None
    return clip(plain_json(body.request.model_dump_json(indent=2)), TEXT_BYTES_MAX)


def _readable(raw: Raw) -> str:
    try:
        found = base64.b64decode(raw.base64 or "")
    except ValueError:  # other than base64, or outside of ASCII
        return ""
    return clip(found.decode(errors="replace"), TEXT_BYTES_MAX)
