"""Open runs of agents, what they ask people, and what people decide and answer."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

from aiohttp import web
from pydantic import JsonValue, ValidationError

from answerbus.approving import approval_of
from answerbus.client.turns import in_turns
from answerbus.control import ApprovalRequested, Cancel, Input, InputRequested
from answerbus.envelope import decode
from answerbus.explain import problems_text
from answerbus.failure import Problem
from answerbus.limits import REASON_BYTES_MAX
from answerbus.problems import problems_of
from answerbus.request_key import CallKey
from answerbus.wire import clip
from services.console.context import CONTEXT, ConsoleContext
from services.console.form import Form, form_of, known_names, page_number
from services.console.guard import approver_of, operator_of, session_of
from services.console.pages.render import long_page, page
from services.console.views.input_form import fields_of, read_args, value_of
from services.operators.records.stored import RecordPosition
from services.operators.runs.shown_args import is_intact, shown_args
from services.operators.runs.tree import Awaited
from services.worker.core.run.ask_person import problems_of_answer

PAGE_RUNS = 30
APPROVALS_SHOWN_MAX = 20
APPROVALS_OPEN = 2  # of them; the arguments of the others are folded away

_NOTICES = {
    "approved": "The approval is written; the run goes on once its worker has read it.",
    "edited": (
        "The approval is written. If the changed arguments do not fit the tool's schema, the call "
        "goes on waiting, and the page of its workflow says why."
    ),
    "denied": "The refusal is written; the run sees it once its worker has read it.",
    "answered": "The answer is written; the run goes on once its worker has read it.",
    "cancelled": "The cancellation is written; the run ends once its worker has read it.",
}


async def runs(request: web.Request) -> web.Response:
    """Those that are open, the oldest first, and what a person is to decide."""
    known_names(request, "notice", "page")
    context = request.app[CONTEXT]
    open_runs = context.feed.state.open_runs
    now_ms = int(context.now() * 1000)
    found = open_runs.runs(now_ms)
    places = [asked.place for run in found for asked in run.awaiting.values()]
    number, last = page_number(request, len(found), PAGE_RUNS)
    async with context.long_pages.turn_of(session_of(request).holder):
        return await long_page(
            request,
            "runs.html",
            notice=_NOTICES.get(request.query.get("notice", "")),
            awaiting=await _asked_at(context, places[:APPROVALS_SHOWN_MAX]),
            decision_on=lambda requested: open_runs.decision_on(CallKey.of(requested)),
            approvals_count=len(open_runs.asked_ms(now_ms)),
            approvals_open=APPROVALS_OPEN,
            open_runs=found[number * PAGE_RUNS :][:PAGE_RUNS],
            count=len(found),
            number=number,
            last=last,
        )


async def decide(request: web.Request) -> web.Response:
    """Approve or deny a call, with the arguments that the person has seen."""
    session = approver_of(request)
    context, form = request.app[CONTEXT], await form_of(request)
    decision, reason = _decision(form), _reason(form)
    requested = await _asked_in(context, form)
    if not isinstance(requested, ApprovalRequested) or not _is_of(form, requested):
        text = "This call awaits no approval any more, or another one than you saw."
        return page(request, "message.html", 409, title="Nothing to decide", text=text)
    args = shown_args(requested)
    is_seen = not args.is_cut or args.is_typed(form.get("typed", ""))
    if decision == "approved" and not (is_seen and is_intact(requested)):
        text = "The arguments were not shown whole: see them all, and type the digest's beginning."
        return page(request, "message.html", 409, title="Not approved", text=text)
    written = form.get("args") if decision == "approved" else None
    edited, faults = (None, ()) if written is None else read_args(written)
    if faults:
        return _does_not_fit(request, faults)
    try:
        approval = approval_of(
            requested,
            decision,
            edited,
            by=clip(session.name, REASON_BYTES_MAX),
            reason=reason,
            at=_now(context),
        )
    except ValidationError as error:
        return _does_not_fit(request, problems_of(error, edited))
    await context.controls.write(approval)
    return _back(decision if approval.args is None else "edited")


async def answer(request: web.Request) -> web.Response:
    """Answer a question of a run, with the values of its form."""
    session = approver_of(request)
    context, form = request.app[CONTEXT], await form_of(request)
    asked = await _asked_in(context, form)
    if not isinstance(asked, InputRequested) or form.get("number", "1") != str(asked.number):
        text = "This question is answered, or its run is over."
        return page(request, "message.html", 409, title="Nothing to answer", text=text)
    value, problems = _answer_in(asked, form)
    if problems:
        return _does_not_fit(request, problems)
    try:
        given = Input(
            call_id=asked.call_id,
            value=value,
            number=asked.number,
            by=clip(session.name, REASON_BYTES_MAX),
            workflow_id=asked.workflow_id,
            at=_now(context),
        )
    except ValidationError as error:
        return _does_not_fit(request, problems_of(error, value))
    await context.controls.write(given)
    return _back("answered")


def _answer_in(asked: InputRequested, form: Form) -> tuple[JsonValue, tuple[Problem, ...]]:
    """The submitted value; null where a person declines to answer a tool."""
    if asked.tool is not None and "declined" in form:
        return None, ()
    value, faults = value_of(fields_of(asked.json_schema), form)
    return value, faults or problems_of_answer(asked.json_schema, value)


def _does_not_fit(request: web.Request, problems: tuple[Problem, ...]) -> web.Response:
    text = f"Go back and change it: {problems_text(problems)}"
    return page(request, "message.html", 422, title="This does not fit", text=text)


async def cancel(request: web.Request) -> web.Response:
    session = operator_of(request)
    context, form = request.app[CONTEXT], await form_of(request)
    reason = _reason(form)
    try:
        control = Cancel(
            scope="request",
            request_id=form.get("request", ""),
            workflow_id=form.get("workflow", ""),
            by=clip(session.name, REASON_BYTES_MAX),
            reason=reason,
            at=_now(context),
        )
    except ValidationError:
        raise web.HTTPBadRequest(text="The form names no request and workflow.") from None
    await context.controls.write(control)
    return _back("cancelled")


async def _asked_in(context: ConsoleContext, form: Form) -> Awaited | None:
    """What is asked by the call that a form names, if no person has decided or answered it."""
    call = CallKey(form.get("workflow", ""), form.get("call", ""))
    place = context.feed.state.open_runs.place_of(call)
    return next(iter(await _asked_at(context, [place])), None) if place else None


async def _asked_at(
    context: ConsoleContext, places: Sequence[RecordPosition]
) -> tuple[Awaited, ...]:
    """What is asked at these places and can still be decided, read again from there."""
    picked = await context.picker.pick_all(places)
    events = [decode(stored.value) async for stored in in_turns(picked)]
    found = (event for event in events if isinstance(event, Awaited))
    now = _now(context)
    return tuple(sorted((e for e in found if e.expires_at > now), key=lambda event: event.at))


def _is_of(form: Form, requested: ApprovalRequested) -> bool:
    """Whether a form showed these arguments, and that it is this delivery which is asked about."""
    named = form.get("delivery", "1"), form.get("after_input", "0")
    is_delivery = named == (str(requested.delivery), str(requested.after_input))
    return is_delivery and form.get("digest") == requested.args_digest


def _decision(form: Form) -> Literal["approved", "denied"]:
    match form.get("decision"):
        case "approved":
            return "approved"
        case "denied":
            return "denied"
        case _:
            raise web.HTTPBadRequest(text="Choose to approve or to deny.")


def _reason(form: Form) -> str:
    reason = form.get("reason", "").strip()
    if not reason:
        raise web.HTTPBadRequest(text="Say why: the reason is recorded with the decision.")
    return clip(reason, REASON_BYTES_MAX)


def _now(context: ConsoleContext) -> datetime:
    return datetime.fromtimestamp(context.now(), UTC)


def _back(notice: str) -> web.Response:
    return web.Response(status=303, headers={"Location": f"/runs?notice={notice}"})
