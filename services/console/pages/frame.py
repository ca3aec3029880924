"""The common parts of every page: the status, the theme, and times in two zones."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from aiohttp import web
from markupsafe import Markup

from services.console.access.tokens import Role
from services.console.context import ConsoleContext
from services.console.form import form_of
from services.console.guard import SESSION
from services.console.tasks.status_now import status_now
from services.operators.records.within_limits import time_in

THEMES = ("system", "light", "dark")
THEME_COOKIE, ZONE_COOKIE = "answerbus_theme", "answerbus_zone"
YEAR_S = 365 * 86_400
OWN_PATH = re.compile(r"/(?!/)[!-\[\]-~]*")  # of this server: `//x` and `/\x` are elsewhere


def frame_values(request: web.Request, context: ConsoleContext, now_ms: int) -> Mapping[str, Any]:
    """For the template that all others extend."""
    session = request.get(SESSION)
    operator = session is not None and session.role is Role.OPERATOR
    theme = request.cookies.get(THEME_COOKIE)
    zone = _zone(request.cookies.get(ZONE_COOKIE, ""))
    return {
        "status": status_now(context.feed, context.poller, now_ms, operator=operator)
        if session
        else None,
        "themes": THEMES,
        "theme": theme if theme in THEMES else THEMES[0],
        "address": request.path_qs if request.method == "GET" else "/letters",
        "clock": lambda at_ms, exact=False: clock(at_ms, zone, exact=exact),
        "zone": zone,
    }


def clock(at_ms: int, zone: ZoneInfo | None, *, exact: bool = False) -> Markup:
    """A time in UTC, and beside it in the zone of the browser, where that is another.

    `exact` is with milliseconds.
    """
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    found = Markup('<time datetime="{}">{}</time>').format(
        at.isoformat(timespec="milliseconds"),
        f"{at:%Y-%m-%d %H:%M:%S}" + (f".{at_ms % 1000:03d}" if exact else ""),
    )
    local = time_in(zone, at) if zone else at
    if not local.utcoffset():
        return found
    return found + Markup(' <small class="local">{}</small>').format(f"{local:%H:%M:%S %Z}")


def _zone(name: str) -> ZoneInfo | None:
    """The zone that a browser named; None where it is none that is known here."""
    try:
        return ZoneInfo(name) if name else None
    except (ValueError, OSError, KeyError):
        return None


async def choose_theme(request: web.Request) -> web.Response:
    """Keep the choice, and go back to where it was made."""
    form = await form_of(request)
    theme, back = form.get("theme", ""), form.get("back", "")
    if theme not in THEMES:
        raise web.HTTPBadRequest(text=f"theme={theme!r} is none of {', '.join(THEMES)}.")
    location = back if OWN_PATH.fullmatch(back) else "/"
    response = web.Response(status=303, headers={"Location": location})
    response.set_cookie(THEME_COOKIE, theme, max_age=YEAR_S, httponly=True, samesite="Strict")
    return response
