"""The live tail: the newest records, without their content."""

from urllib.parse import urlencode

from aiohttp import web

from services.console.context import CONTEXT
from services.console.form import known_names, page_number
from services.console.pages.render import page
from services.console.views.chips import FilterChip
from services.console.views.filters import ANY, TailFilter
from services.console.views.record_line import what_of
from services.operators.dead_letters.moment import EXAMPLES, moment_ms
from services.operators.records.record_filter import RecordFilter

PAGE_RECORDS = 60
KINDS = (
    *("request", "attempt", "retry_request", "retry_ended"),
    *("result", "unvalidated_result", "refusal", "dead_letter"),
    *("replayed", "dismissed", "undecodable"),
)
_NAMES = ("q", "workflow", "since", "kind")
GIVEN_MAX = len(KINDS) + 10  # parameters; each kind may be one


async def tail(request: web.Request) -> web.Response:
    """All records, or those asked for."""
    known_names(request, *_NAMES, "page")
    record_filter = _wanted(request)
    found = [
        record for record in request.app[CONTEXT].feed.state.tail() if record_filter.admits(record)
    ]
    number, last = page_number(request, len(found), PAGE_RECORDS)
    given = _given(request)
    return page(
        request,
        "tail.html",
        seen=found[number * PAGE_RECORDS :][:PAGE_RECORDS],
        what_of=what_of,
        kinds=KINDS,
        wanted=record_filter.records.kinds or (),
        workflow=record_filter.records.workflow_id or "",
        text=record_filter.text,
        since=request.query.get("since", ANY),
        chips=[
            FilterChip(
                name, value.replace("_", " ") if name == "kind" else value, _without(given, n)
            )
            for n, (name, value) in enumerate(given)
        ],
        query=urlencode(given),
        number=number,
        last=last,
    )


def _wanted(request: web.Request) -> TailFilter:
    """Raises HTTPBadRequest for a kind that is none, and for a time that is none."""
    kinds = frozenset(request.query.getall("kind", []))
    if unknown := sorted(kinds.difference(KINDS)):
        raise web.HTTPBadRequest(text=f"kind={unknown[0]!r} is none of {', '.join(KINDS)}.")
    since = request.query.get("since", ANY)
    since_ms = moment_ms(since, int(request.app[CONTEXT].now() * 1000))
    if since != ANY and since_ms is None:
        raise web.HTTPBadRequest(text=f"since={since!r} is not a time such as {EXAMPLES}.")
    workflow_id = request.query.get("workflow", "").strip()
    records = RecordFilter(workflow_id or None, kinds=kinds or None)
    return TailFilter(records, request.query.get("q", "").strip(), since_ms)


def _given(request: web.Request) -> list[tuple[str, str]]:
    """The filters that are in use, each once. Raises HTTPBadRequest."""
    if len(request.query) > GIVEN_MAX:
        raise web.HTTPBadRequest(text=f"This page takes at most {GIVEN_MAX} parameters.")
    given = dict.fromkeys(request.query.items())
    return [
        (name, value)
        for name, value in given
        if name in _NAMES and value.strip() and (name, value) != ("since", ANY)
    ]


def _without(given: list[tuple[str, str]], left_out: int) -> str:
    return f"/tail?{urlencode([pair for n, pair in enumerate(given) if n != left_out])}"
