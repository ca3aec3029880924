"""What is to be done with letters: the form, the start of it, and how it goes."""

from aiohttp import web

from services.console.chosen import Chosen, chosen_of
from services.console.desk import DESK, Desk
from services.console.form import Form, form_of
from services.console.guard import operator_of
from services.console.jobs import ACTIONS, LETTERS_MAX, Action
from services.console.render import page
from services.console.wish import Wish, order_of, wish_of
from services.letters.letter import Letter
from services.letters.patch import EditFault
from services.letters.selection import select

EVERYTHING = "everything"  # the field that says that all are meant


async def start(request: web.Request) -> web.Response:
    """Do what the form says with the letters it means, in the background, and show how it goes."""
    session = operator_of(request)
    desk = request.app[DESK]
    form = await form_of(request)
    found, wish = _meant(desk, form), wish_of({**form})
    action: Action | None = next((one for one in ACTIONS if one == form.get("action")), None)
    order = order_of(wish, session.name)
    wrong = order.reason if isinstance(order, EditFault) else _wrong(action, found, wish)
    if wrong or action is None or isinstance(order, EditFault):
        return _form(request, _chosen(form), wish, len(found), wrong)
    job = desk.jobs.start(action, found, order, wish)
    return web.Response(status=303, headers={"Location": f"/letters/jobs/{job.number}"})


async def prepare(request: web.Request) -> web.Response:
    """The form, for the letters that were chosen."""
    operator_of(request)
    form = await form_of(request)
    found = _meant(request.app[DESK], form)
    wrong = None if found else "No letter is chosen."
    return _form(request, _chosen(form), Wish(), len(found), wrong)


async def job(request: web.Request) -> web.Response:
    """How it goes."""
    desk = request.app[DESK]
    operator_of(request)
    found = desk.jobs.get(int(request.match_info["number"]))
    if found is None:
        text = "This console has done no such thing since it was started."
        return page(request, "message.html", 404, title="No such run", text=text)
    letters = desk.feed.picture.letters
    known = [letter for one in found.ids if (letter := letters.get(one))]
    fates = [letters.fate(letter) for letter in known]
    return page(
        request,
        "job.html",
        job=found,
        fates={
            ending: sum(fate is not None and fate.ending == ending for fate in fates)
            for ending in ("pending", "answered", "refused", "dead")
        },
        wish=found.wish,
        count=len(found.ids),
        profiles=sorted(desk.settings.profiles),
    )


def _chosen(form: Form) -> Chosen:
    """By the filters and ids of the form, or by the run that it goes on from."""
    chosen = chosen_of(form.items())
    return Chosen(chosen.where, chosen.status) if EVERYTHING in form else chosen


def _meant(desk: Desk, form: Form) -> list[Letter]:
    """The letters of an earlier run, or those that are chosen: none, if it is not said which."""
    letters, run = desk.feed.picture.letters, form.get("run")
    if run is not None:
        job = desk.jobs.get(int(run)) if run.isdecimal() and len(run) < 10 else None
        return [letter for one in job.ids if (letter := letters.get(one))] if job else []
    chosen = _chosen(form)
    return select(letters, chosen.selection) if chosen.ids or EVERYTHING in form else []


def _wrong(action: Action | None, found: list[Letter], wish: Wish) -> str | None:
    if action is None:
        return "Choose what to do."
    if not found:
        return "No letter is chosen."
    if len(found) > LETTERS_MAX:
        return f"At most {LETTERS_MAX:,} letters at once: narrow them, or use `answerbus replay`."
    if action != "dry-run" and not wish.reason:
        return "Say why: the reason is recorded with the letters."
    return None


def _form(
    request: web.Request, chosen: Chosen, wish: Wish, count: int, wrong: str | None
) -> web.Response:
    profiles = sorted(request.app[DESK].settings.profiles)
    return page(
        request,
        "plan.html",
        400 if wrong else 200,
        chosen=chosen,
        wish=wish,
        count=count,
        wrong=wrong,
        profiles=profiles,
    )
