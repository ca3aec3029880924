"""The pages of comparisons: a list of them, and one with its figures and answers."""

import asyncio
from collections.abc import Callable

from aiohttp import web

from answerbus.compared import Compared
from services.console.access.tokens import Role
from services.console.context import CONTEXT
from services.console.figures.comparison_rows import agreement_bar, measure_rows, member_rows
from services.console.form import choice_of, is_streamed, known_names, page_number
from services.console.guard import session_of
from services.console.pages.render import long_page, page
from services.console.views.question_row import QuestionRow
from services.operators.comparisons.chosen import QUESTION_KINDS, ChosenComparison
from services.operators.comparisons.listed import ComparisonList

PATH = "/profiles/comparison"
QUESTIONS_SHOWN = 8  # of 1 MiB at most
MEMBERS_SHOWN = 10  # the others are folded away
KINDS = dict(zip(QUESTION_KINDS, ("Different", "Equal", "Not both answered"), strict=True))
_TITLE = "Comparisons of profiles"
_PAGES_MAX = 10**9
_TOO_LONG = (
    "There are more comparisons than a page can read. `answerbus compare --json` gives the figures "
    "of a comparison when it ends."
)


async def comparisons(request: web.Request) -> web.Response:
    """Those that the topic still holds, the newest first."""
    known_names(request)
    if is_streamed(request):  # the frame alone changes: the topic is read when the page is loaded
        return page(request, "message.html", title=_TITLE, text="")
    found = ComparisonList()
    await _read(request, found.take)
    rows = [(row, row.folded.report()) for row in found.newest()]
    return page(
        request,
        "comparisons.html",
        title=_TITLE,
        path=PATH,
        rows=[(row, report, agreement_bar(report.equal)) for row, report in rows],
        is_cut=found.is_cut,
    )


async def comparison(request: web.Request) -> web.Response:
    """One by its `name`; `show` is the kind of questions whose answers are shown."""
    known_names(request, "name", "show", "page")
    name = request.query.get("name", "")
    title = f"Comparison {name}"
    if is_streamed(request):
        return page(request, "message.html", title=title, text="")
    kind = choice_of(request, "show", QUESTION_KINDS)
    number, _ = page_number(request, _PAGES_MAX, QUESTIONS_SHOWN)
    found = ChosenComparison(kind, number * QUESTIONS_SHOWN, QUESTIONS_SHOWN)
    await _read(request, lambda compared, _: found.take(compared), name)
    report = found.folded.report()
    if not report.asked:
        raise web.HTTPNotFound(text=f"No record of a comparison {name!r} is kept.")
    session, context = session_of(request), request.app[CONTEXT]
    is_operator = session.role is Role.OPERATOR
    async with context.long_pages.turn_of(session.holder):
        return await long_page(
            request,
            "comparison.html",
            title=title,
            path=PATH,
            name=name,
            profile=found.profile,
            report=report,
            measures=list(measure_rows(report)),
            members=list(member_rows(report)) if is_operator else [],
            members_shown=MEMBERS_SHOWN,
            kinds=KINDS,
            kind=kind,
            counts=found.counts,
            questions=await asyncio.to_thread(_rows, found) if is_operator else [],
            number=number,
            last=max(0, (found.counts[kind] - 1) // QUESTIONS_SHOWN),
        )


def _rows(found: ChosenComparison) -> list[QuestionRow]:
    return [QuestionRow.of(compared) for compared in found.questions]


async def _read(
    request: web.Request, take: Callable[[Compared, int], None], name: str | None = None
) -> None:
    try:
        await request.app[CONTEXT].comparison_reader.read(take, name)
    except TimeoutError:
        raise web.HTTPServiceUnavailable(text=_TOO_LONG) from None
