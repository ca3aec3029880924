"""Light, dark, or as the system has it: chosen by a form, kept in a cookie."""

import re

from aiohttp import web

from services.console.form import form_of
from services.console.pages.frame import THEME_COOKIE, THEMES

YEAR_S = 365 * 86_400
_OWN_PATH = re.compile(r"/(?!/)[!-\[\]-~]*")  # of this server: `//x` and `/\x` are elsewhere


async def choose(request: web.Request) -> web.Response:
    """Keep the choice, and go back to where it was made."""
    form = await form_of(request)
    theme, back = form.get("theme", ""), form.get("back", "")
    if theme not in THEMES:
        raise web.HTTPBadRequest(text=f"theme={theme!r} is none of {', '.join(THEMES)}.")
    location = back if _OWN_PATH.fullmatch(back) else "/"
    response = web.Response(status=303, headers={"Location": location})
    response.set_cookie(THEME_COOKIE, theme, max_age=YEAR_S, httponly=True, samesite="Strict")
    return response
