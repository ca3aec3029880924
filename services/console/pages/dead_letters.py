"""Dead letters, in groups and one by one."""

from collections.abc import Sequence
from urllib.parse import urlencode

from aiohttp import web

from services.console.access.tokens import Role
from services.console.context import CONTEXT
from services.console.form import choice_of, page_number
from services.console.guard import session_of
from services.console.pages.chosen import filters_in
from services.console.pages.render import page
from services.console.state.dead_letter_cache import Order, part_of
from services.console.views.chips import chips_of
from services.console.views.filters import seen_ends
from services.operators.dead_letters.groups import BY_DEFAULT, KEYS, ORDERS, Key, key_of
from services.operators.dead_letters.row import STATUSES

PAGE_DEAD_LETTERS = 50
KEYS_MAX = 12  # to group by
# Paths of problems may hold words of an answer, which viewers do not see.
BY_FOR_VIEWERS = ("failure", "problem", "cause", "contract")
OPERATORS_KEYS = frozenset({"why"})

DEAD_LETTER_SORTS: tuple[Order, ...] = ("oldest", "newest", "spent")


async def groups(request: web.Request) -> web.Response:
    """By the keys `by`, of those that the filters mean."""
    filters = filters_in(request, "by", "label", "sort")
    keys = _keys(request)
    sort = choice_of(request, "sort", ORDERS)
    state = request.app[CONTEXT].feed.state
    found = state.group_cache.of(filters, keys, sort)
    rows = [(group, filters.narrowed(keys, group.values)) for group in found.groups]
    beside = [*(("by", str(key)) for key in keys), ("sort", sort)]
    return page(
        request,
        "dead_letter_groups.html",
        filters=filters,
        chips=chips_of(filters, "/letters", beside),
        beside=beside,
        query=urlencode([*filters.address, *beside[:-1]]),
        keys=keys,
        all_keys=_offered(request),
        statuses=STATUSES,
        sorts=tuple(ORDERS),
        sort=sort,
        rows=rows,
        seen=seen_ends(state.dead_letters.ends),
        left_out=found.total - len(rows),
        count=found.count,
    )


async def listed(request: web.Request) -> web.Response:
    """One page of the dead letters that the filters mean."""
    filters = filters_in(request, "page", "sort", "again")
    sort = choice_of(request, "sort", DEAD_LETTER_SORTS)
    state = request.app[CONTEXT].feed.state
    found = state.dead_letter_cache.of(filters)
    number, last = page_number(request, len(found), PAGE_DEAD_LETTERS)
    again = [(name, value) for name, value in request.query.items() if name == "again"]
    beside = [("sort", sort), *again]
    return page(
        request,
        "dead_letters.html",
        filters=filters,
        chips=chips_of(filters, "/letters/list", beside),
        beside=beside,
        again=again,
        query=urlencode([*filters.address, *again]),
        statuses=STATUSES,
        sorts=DEAD_LETTER_SORTS,
        sort=sort,
        count=len(found),
        shown=part_of(found, sort, number * PAGE_DEAD_LETTERS, PAGE_DEAD_LETTERS),
        seen=seen_ends(state.dead_letters.ends),
        number=number,
        last=last,
        outcome_of=state.dead_letters.replay_outcome,
    )


def _keys(request: web.Request) -> list[Key]:
    """The keys to group by, without those that this role may not use. Raises HTTPBadRequest."""
    label = request.query.get("label", "").strip()
    given = [*request.query.getall("by", []), *([f"label:{label}"] if label else [])]
    offered = _offered(request)
    default = BY_DEFAULT if "why" in offered else BY_FOR_VIEWERS
    if len(given) > KEYS_MAX:
        text = f"At most {KEYS_MAX} keys can be grouped by, not {len(given)}."
        raise web.HTTPBadRequest(text=text)
    found = [key for text in dict.fromkeys(given or default) if (key := key_of(text))]
    return [key for key in found if key.label or key.kind in offered]


def _offered(request: web.Request) -> Sequence[str]:
    if session_of(request).role is Role.OPERATOR:
        return KEYS
    return [key for key in KEYS if key not in OPERATORS_KEYS]
