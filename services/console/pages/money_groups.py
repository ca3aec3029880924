"""The page of spending in groups, such as by contract and tenant, over days, and its CSV."""

import asyncio
from dataclasses import dataclass
from urllib.parse import urlencode

from aiohttp import web

from answerbus.client.turns import in_turns
from services.console.context import CONTEXT
from services.console.figures.spend_groups_report import csv_lines, groups_figure, steps_between
from services.console.figures.spend_rows import name_bar
from services.console.form import is_streamed, known_names
from services.console.pages.render import page
from services.console.state.spend_groups import (
    KEYS,
    LABEL,
    GroupAmounts,
    KeysFault,
    SpendGroups,
    Steps,
    keys_of,
)
from services.console.state.spend_table import Amounts
from services.console.views.chart import Axis
from services.console.views.links import address
from services.operators.dead_letters.moment import EXAMPLES, as_text, moment_ms

PATH = "/money/groups"
ROWS_SHOWN = 50
LABELS_OFFERED = 6
_TITLE = "Spending in groups"
_TIMES = {"1h": "last hour", "24h": "last 24 hours", "7d": "last 7 days", "30d": "last 30 days"}
_DAY_MINUTES = 24 * 60
_TOO_LONG = (
    "There are more attempts in this time than a page can read: choose a shorter time, or run "
    "`answerbus spend --by` in a shell, which takes as long as it needs."
)


@dataclass(frozen=True, slots=True)
class _Asked:
    keys: tuple[str, ...]
    since: str
    steps: Steps

    @property
    def query(self) -> str:
        until = [] if self.since in _TIMES else [("to", as_text(self.steps.end_ms))]
        return urlencode([("by", ",".join(self.keys)), ("from", self.since), *until])


async def groups(request: web.Request) -> web.Response:
    """The cost of the dearest groups over time."""
    if is_streamed(request):  # the frame alone changes: groups are read when the page is loaded
        return page(request, "message.html", title=_TITLE, text="")
    asked = _asked(request)
    found, is_cut = await _read(request, asked)
    rows = await asyncio.to_thread(found.rows, ROWS_SHOWN)  # of up to 10,000 groups
    by = ",".join(asked.keys)
    axis = Axis(
        asked.steps.starts_ms,
        asked.steps.step_ms,
        lambda span: address(PATH, (("by", by), *span)),
    )
    top = max((row.amounts.charged_micro_usd for row in rows), default=0)
    board = request.app[CONTEXT].feed.state.board
    minute = asked.steps.end_ms // 60_000
    labels = board.label_names.between(minute - _DAY_MINUTES, minute + 1)[:LABELS_OFFERED]
    offered = dict.fromkeys([*KEYS, *(LABEL + label.name for label in labels), *asked.keys])
    return page(
        request,
        "money_groups.html",
        title=_TITLE,
        keys=asked.keys,
        offered=list(offered),
        since=asked.since,
        times=_TIMES,
        query=asked.query,
        steps=asked.steps,
        figure=groups_figure(found, rows, axis),
        rows=[(row, name_bar(_amounts(row.amounts), top)) for row in rows],
        total=found.total.amounts,
        is_cut=is_cut,
    )


async def csv_file(request: web.Request) -> web.Response:
    """All groups that are known, for finance."""
    asked = _asked(request)
    found, _ = await _read(request, asked)
    rows = await asyncio.to_thread(found.rows)
    lines = [line async for line in in_turns(csv_lines(found, rows))]
    name = f"spend-{as_text(asked.steps.first_ms)[:10]}-{as_text(asked.steps.end_ms)[:10]}.csv"
    return web.Response(
        text="".join(lines),
        content_type="text/csv",
        charset="utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


async def _read(request: web.Request, asked: _Asked) -> tuple[SpendGroups, bool]:
    try:
        return await request.app[CONTEXT].spend_reader.read(asked.keys, asked.steps)
    except TimeoutError:
        raise web.HTTPServiceUnavailable(text=_TOO_LONG) from None


def _asked(request: web.Request) -> _Asked:
    """`by` may be there once for each key, as a form sends it. Raises HTTPBadRequest."""
    known_names(request, "by", "from", "to")
    keys = keys_of(",".join(request.query.getall("by", ["contract", "profile"])))
    if isinstance(keys, KeysFault):
        raise web.HTTPBadRequest(text=keys.reason)
    now_ms = int(request.app[CONTEXT].now() * 1000)
    since = request.query.get("from", "24h")
    first_ms, end_ms = _moment(since, now_ms), _moment(request.query.get("to", "0s"), now_ms)
    if first_ms >= end_ms:
        raise web.HTTPBadRequest(text="The time `from` must be before `to`.")
    return _Asked(keys, since, steps_between(first_ms, end_ms))


def _moment(text: str, now_ms: int) -> int:
    found = moment_ms(text, now_ms)
    if found is None:
        raise web.HTTPBadRequest(text=f"{text!r} is not a time such as {EXAMPLES}.")
    return found


def _amounts(found: GroupAmounts) -> Amounts:
    return Amounts(found.calls, found.tokens, found.used_micro_usd, found.charged_micro_usd)
