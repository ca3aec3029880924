"""Dead letters, in groups and one by one."""

from aiohttp import web

from services.console.context import CONTEXT
from services.console.pages.render import page
from services.console.views.filters import DeadLetterFilters, FilterFault, filters_of
from services.operators.dead_letters.groups import KEYS, key_of
from services.operators.dead_letters.row import STATUSES
from services.operators.dead_letters.selection import select

PAGE_LETTERS = 50
GROUPS_MAX = 200
BY_DEFAULT = ("cause", "contract", "profile")


async def groups(request: web.Request) -> web.Response:
    """By the keys `by`, of those that the filters mean."""
    filters = _filters(request, "by", "label")
    given = [*request.query.getall("by", []), *_label(request)]
    keys = [key for text in dict.fromkeys(given or BY_DEFAULT) if (key := key_of(text))]
    found = request.app[CONTEXT].feed.state.group_cache.of(filters, keys)
    rows = [(one, filters.narrowed(keys, one.values).query) for one in found.groups[:GROUPS_MAX]]
    return page(
        request,
        "dead_letter_groups.html",
        filters=filters,
        keys=keys,
        all_keys=KEYS,
        statuses=STATUSES,
        rows=rows,
        left_out=len(found.groups) - len(rows),
        count=found.count,
    )


async def listed(request: web.Request) -> web.Response:
    """One page of the dead letters that the filters mean, the oldest first."""
    filters = _filters(request, "page")
    letters = request.app[CONTEXT].feed.state.dead_letters
    found = select(letters, filters.selection)
    last = max(0, (len(found) - 1) // PAGE_LETTERS)
    asked = request.query.get("page", "0")
    number = min(int(asked), last) if asked.isdecimal() and len(asked) < 9 else 0
    return page(
        request,
        "dead_letters.html",
        filters=filters,
        count=len(found),
        shown=found[number * PAGE_LETTERS :][:PAGE_LETTERS],
        number=number,
        last=last,
        outcome_of=letters.replay_outcome,
    )


def _filters(request: web.Request, *beside: str) -> DeadLetterFilters:
    """Raises HTTPBadRequest: a misspelt filter must not mean all."""
    now_ms = int(request.app[CONTEXT].now() * 1000)
    filters = filters_of(request.query.items(), now_ms, beside)
    if isinstance(filters, FilterFault):
        raise web.HTTPBadRequest(text=filters.reason)
    if filters.ids:
        raise web.HTTPBadRequest(text="Letters are not listed by id: /letters/one?id=… shows one.")
    return filters


def _label(request: web.Request) -> list[str]:
    name = request.query.get("label", "").strip()
    return [f"label:{name}"] if name else []
