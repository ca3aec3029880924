"""Selects dead letters from an address or a form: by filters, by a job, or by a failed replay."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from urllib.parse import urlencode

from aiohttp import web

from services.console.access.tokens import Role
from services.console.context import CONTEXT, ConsoleContext
from services.console.form import Form
from services.console.guard import session_of
from services.console.tasks.jobs import Job
from services.console.views.filters import DeadLetterFilters, FilterFault, filters_of
from services.console.views.units import MINUTE_MS
from services.operators.dead_letters.row import DeadLetterRow
from services.operators.dead_letters.selection import select

AGAIN = "again"  # the number of a job: its dead letters that died again
EVERYTHING = "everything"  # the field that says that all are meant
NAMED_MAX = 3  # of several dead letters with one id
NO_DEAD_LETTER = ""  # the id of none: no id at all would mean any


def filters_in(request: web.Request, *beside: str) -> DeadLetterFilters:
    """Of an address. Raises HTTPBadRequest: a misspelt filter must not mean all.

    "The last hour" begins at a whole minute, so that what was counted for it serves for a while.
    """
    context = request.app[CONTEXT]
    now_ms = int(context.now() * 1000) // MINUTE_MS * MINUTE_MS
    filters = _read(request.query.items(), now_ms, beside)
    if filters.ids:
        raise web.HTTPBadRequest(text="Letters are not listed by id: /letters/one?id=… shows one.")
    for key, _ in filters.where:
        if key.kind == "why" and session_of(request).role is not Role.OPERATOR:
            raise web.HTTPForbidden(text="Problems of answers are shown to operators.")
    if AGAIN not in request.query or AGAIN not in beside:
        return filters
    return replace(filters, ids=dead_again(context, job_of(context, request.query[AGAIN])))


def filters_in_form(context: ConsoleContext, form: Form, own: Collection[str]) -> DeadLetterFilters:
    """By the filters and ids of a form; `own` are its other fields.

    Raises HTTPBadRequest for what is not a filter: "all" must not mean more than was looked at.
    """
    filters = _read(form.items(), int(context.now() * 1000), own)
    if wrong := ambiguous(context, filters.ids):
        raise web.HTTPBadRequest(text=wrong)
    if EVERYTHING not in form:
        return filters
    if AGAIN in form:
        return replace(filters, ids=dead_again(context, job_of(context, form[AGAIN])))
    return replace(filters, ids=frozenset())


def ambiguous(context: ConsoleContext, ids: Iterable[str]) -> str | None:
    """What to say where an id is that of dead letters of several workflows: none is chosen."""
    for id_ in ids:
        named = context.feed.state.dead_letters.named(id_)
        if len(named) > 1:
            listed = ", ".join(dead_letter.key.text for dead_letter in named[:NAMED_MAX])
            return f"{len(named):,} dead letters have the id {id_}: name one, such as {listed}."
    return None


def list_address(text: str) -> str:
    """Of the dead letters that have the text in an id or elsewhere."""
    return f"/letters/list?{urlencode({'q': text, 'status': 'any'})}"


def dead_letters_of(context: ConsoleContext, filters: DeadLetterFilters) -> list[DeadLetterRow]:
    return select(context.feed.state.dead_letters, filters.selection)


def job_of(context: ConsoleContext, number: str) -> Job:
    """Raises HTTPBadRequest where this console has no such job."""
    found = context.jobs.get(int(number)) if number.isdecimal() and len(number) < 10 else None
    if found is None:
        raise web.HTTPBadRequest(text=f"This console has no run {number!r} since it was started.")
    return found


def dead_again(context: ConsoleContext, job: Job) -> frozenset[str]:
    """The ids of the dead letters that came of a job's replays."""
    outcome_of = context.feed.state.dead_letters.replay_outcome
    outcomes = map(outcome_of, context.jobs.dead_letters(job))
    found = frozenset(it.dead_letter.text for it in outcomes if it and it.dead_letter)
    return found or frozenset({NO_DEAD_LETTER})


def _read(
    pairs: Iterable[tuple[str, str]], now_ms: int, beside: Collection[str]
) -> DeadLetterFilters:
    filters = filters_of(pairs, now_ms, beside)
    if isinstance(filters, FilterFault):
        raise web.HTTPBadRequest(text=filters.reason)
    return filters
