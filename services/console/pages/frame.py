"""What stands on every page: the status, the look that was chosen, and times in two zones."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

from aiohttp import web
from markupsafe import Markup

from services.console.access.tokens import Role
from services.console.context import ConsoleContext
from services.console.guard import SESSION
from services.console.views.status import LATELY_MINUTES, BusStatus, StatusFacts, bus_status
from services.operators.dead_letters.why import why_text, without_path

THEMES = ("system", "light", "dark")
THEME_COOKIE, ZONE_COOKIE = "answerbus_theme", "answerbus_zone"
RECENT_LETTERS_MAX = 1_000  # are looked at for why most of them died
_MINUTE_MS = 60_000


def frame_values(request: web.Request, context: ConsoleContext, now_ms: int) -> Mapping[str, Any]:
    """For the template that all others extend."""
    session = request.get(SESSION)
    operator = session is not None and session.role is Role.OPERATOR
    theme = request.cookies.get(THEME_COOKIE)
    zone = _zone(request.cookies.get(ZONE_COOKIE, ""))
    return {
        "status": status_of(context, now_ms, operator=operator) if session else None,
        "themes": THEMES,
        "theme": theme if theme in THEMES else THEMES[0],
        "address": request.path_qs if request.method == "GET" else "/letters",
        "clock": lambda at_ms, exact=False: clock(at_ms, zone, exact=exact),
        "zone": zone,
    }


def status_of(context: ConsoleContext, now_ms: int, *, operator: bool) -> BusStatus:
    """As of now. Paths of problems, which may quote answers, are for operators."""
    state, results, progress = context.feed.state, context.poller.results, context.feed.progress
    recent = state.board.window(now_ms, LATELY_MINUTES, 1).total.outcomes
    told = {one.name for one in results.profiles if one.problem}
    lag = None if results.lag is None else sum(results.lag.values())
    return bus_status(
        StatusFacts(
            now_ms=now_ms,
            trouble=progress.trouble or results.trouble,
            percent=None if progress.caught_up else progress.percent,
            profiles=results.profiles,
            unanswered=[name for name in state.board.unhealthy(now_ms) if name not in told],
            stuck=results.stuck,
            workers=len(results.workers),
            silent_workers=results.silent_workers,
            ended=recent.total(),
            dead=recent["dead_letter"],
            dead_mostly=_mostly(context, now_ms, operator=operator),
            waiting=lag,
            standing_s=_standing_s(context, now_ms),
        )
    )


def clock(at_ms: int, zone: ZoneInfo | None, *, exact: bool = False) -> Markup:
    """A time in UTC, and beside it in the zone of the browser, where that is another.

    `exact` is with milliseconds.
    """
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    found = Markup('<time datetime="{}">{}</time>').format(
        at.isoformat(timespec="milliseconds"),
        f"{at:%Y-%m-%d %H:%M:%S}" + (f".{at_ms % 1000:03d}" if exact else ""),
    )
    local = at.astimezone(zone) if zone else at
    if not local.utcoffset():
        return found
    return found + Markup(' <small class="local">{}</small>').format(f"{local:%H:%M:%S %Z}")


def _mostly(context: ConsoleContext, now_ms: int, *, operator: bool) -> str | None:
    """Why most of those died that died lately."""
    since_ms = now_ms - LATELY_MINUTES * _MINUTE_MS
    newest = islice(context.feed.state.dead_letters.newest(), RECENT_LETTERS_MAX)
    whys = Counter(letter.why for letter in newest if letter.at_ms >= since_ms)
    if not whys:
        return None
    why = whys.most_common(1)[0][0]
    return why_text(why if operator else without_path(why))


def _standing_s(context: ConsoleContext, now_ms: int) -> float:
    """How long records have waited without a break while nothing has ended."""
    lagging_since = context.poller.results.lagging_since
    if lagging_since is None:
        return 0.0
    lasts_s = asyncio.get_running_loop().time() - lagging_since
    ended_ms = context.feed.state.ended_ms
    return lasts_s if ended_ms is None else min(lasts_s, max(0.0, (now_ms - ended_ms) / 1000))


def _zone(name: str) -> ZoneInfo | None:
    """The zone that a browser named; None where it is none that is known here."""
    try:
        return ZoneInfo(name) if name else None
    except (ValueError, OSError, KeyError):
        return None
