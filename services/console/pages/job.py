"""A bulk action on dead letters: its form, its start, and its progress."""

from collections.abc import Sequence

from aiohttp import web

from services.console.context import CONTEXT, ConsoleContext
from services.console.form import Form, form_of
from services.console.guard import operator_of
from services.console.pages.chosen import (
    AGAIN,
    EVERYTHING,
    ambiguous,
    dead_letters_of,
    filters_in_form,
    job_of,
)
from services.console.pages.render import page
from services.console.tasks.jobs import ACTIONS, DEAD_LETTERS_MAX, Action
from services.console.views.chips import chips_of
from services.console.views.filters import NAMES, DeadLetterFilters
from services.console.views.replay_form import (
    FIELD_PREFIX,
    ReplayForm,
    replay_form_of,
    replay_order_of,
)
from services.operators.dead_letters.estimate import estimated_cost
from services.operators.dead_letters.patch import EditFault
from services.operators.dead_letters.row import DeadLetterRow

_FIELDS = frozenset({EVERYTHING, AGAIN, "csrf", "run", "action"})


async def start(request: web.Request) -> web.Response:
    """Do what the form says with its dead letters, in the background, and show the progress."""
    session = operator_of(request)
    context = request.app[CONTEXT]
    form = await form_of(request)
    found, replay_form = _meant(context, form), replay_form_of({**form})
    action: Action | None = next((known for known in ACTIONS if known == form.get("action")), None)
    order = replay_order_of(replay_form, session.name)
    if isinstance(order, EditFault):
        wrong: str | None = order.reason
    else:
        ids = order.edits.by_dead_letter
        wrong = _wrong(action, found, replay_form) or ambiguous(context, ids)
    if wrong or action is None or isinstance(order, EditFault):
        return _form(request, _chosen(context, form), replay_form, found, wrong, form.get("run"))
    job = context.jobs.start(action, found, order, replay_form)
    return web.Response(status=303, headers={"Location": f"/letters/jobs/{job.number}"})


async def prepare(request: web.Request) -> web.Response:
    """The form, for the dead letters that were chosen."""
    operator_of(request)
    form = await form_of(request)
    context = request.app[CONTEXT]
    found = _meant(context, form)
    wrong = None if found else "No dead letter is chosen."
    return _form(request, _chosen(context, form), ReplayForm(), found, wrong)


async def job(request: web.Request) -> web.Response:
    context = request.app[CONTEXT]
    operator_of(request)
    found = context.jobs.get(int(request.match_info["number"]))
    if found is None:
        text = "This console has done no such thing since it was started."
        return page(request, "message.html", 404, title="No such run", text=text)
    known = context.jobs.dead_letters(found)
    outcomes = [context.feed.state.dead_letters.replay_outcome(one) for one in known]
    return page(
        request,
        "job.html",
        job=found,
        outcomes={
            ending: sum(outcome is not None and outcome.ending == ending for outcome in outcomes)
            for ending in ("pending", "answered", "refused", "dead")
        },
        replay_form=found.replay_form,
        count=len(found.keys),
        cost=estimated_cost(known),
        profiles=sorted(context.settings.profiles),
    )


def _chosen(context: ConsoleContext, form: Form) -> DeadLetterFilters:
    """By the filters and ids of the form."""
    is_all = EVERYTHING in form  # else those that are meant are named one by one
    own = {name for name in form if name in _FIELDS or name.startswith(FIELD_PREFIX)}
    return filters_in_form(context, form, own if is_all else form.keys() - set(NAMES))


def _meant(context: ConsoleContext, form: Form) -> list[DeadLetterRow]:
    """The dead letters of an earlier run, or those that are chosen; none if none are."""
    if (run := form.get("run")) is not None:
        return context.jobs.dead_letters(job_of(context, run))
    filters = _chosen(context, form)
    return dead_letters_of(context, filters) if filters.ids or EVERYTHING in form else []


def _wrong(
    action: Action | None, found: list[DeadLetterRow], replay_form: ReplayForm
) -> str | None:
    if action is None:
        return "Choose what to do."
    if not found:
        return "No dead letter is chosen."
    if len(found) > DEAD_LETTERS_MAX:
        most = f"At most {DEAD_LETTERS_MAX:,} dead letters at once"
        return f"{most}: narrow them, or use `answerbus replay`."
    if action != "dry-run" and not replay_form.reason:
        return "Say why: the reason is recorded with the dead letters."
    return None


def _form(
    request: web.Request,
    filters: DeadLetterFilters,
    replay_form: ReplayForm,
    found: Sequence[DeadLetterRow],
    wrong: str | None,
    run: str | None = None,
) -> web.Response:
    """`run` is the number of an earlier run whose dead letters are meant, and no others."""
    profiles = sorted(request.app[CONTEXT].settings.profiles)
    return page(
        request,
        "replay.html",
        400 if wrong else 200,
        filters=filters,
        run=run,
        replay_form=replay_form,
        chips=chips_of(filters, "/letters/list"),
        count=len(found),
        cost=estimated_cost(found),
        wrong=wrong,
        profiles=profiles,
    )
