"""In and out."""

import getpass

from aiohttp import web

from services.console.desk import DESK
from services.console.guard import COOKIE
from services.console.render import page

NAME_CHARS_MAX = 100


async def ask(request: web.Request) -> web.Response:
    """The form; or straight in with the token in the address, as it is printed on loopback."""
    token = request.query.get("token")
    if token is None:
        return page(request, "login.html", wrong=False)
    return _let_in(request, token, _own_name())


async def enter(request: web.Request) -> web.Response:
    """Let someone in who knows a token."""
    form = await request.post()
    name = str(form.get("name", "")).strip()[:NAME_CHARS_MAX]
    return _let_in(request, str(form.get("token", "")).strip(), name or "someone")


async def leave(request: web.Request) -> web.Response:
    """End the session."""
    request.app[DESK].guard.sessions.remove(request.cookies.get(COOKIE, ""))
    response = web.Response(status=303, headers={"Location": "/login"})
    response.del_cookie(COOKIE)
    return response


def _own_name() -> str:
    """Who started the console, as far as the system knows: in containers it may not."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "someone"


def _let_in(request: web.Request, token: str, name: str) -> web.Response:
    guard = request.app[DESK].guard
    found = guard.let_in(token, name)
    if found is None:
        return page(request, "login.html", status=403, wrong=True)
    response = web.Response(status=303, headers={"Location": "/"})
    guard.give_cookie(response, found[0])
    return response
