"""In and out."""

from aiohttp import web

from services.console.context import CONTEXT
from services.console.form import form_of
from services.console.guard import COOKIE
from services.console.pages.render import page


async def ask(request: web.Request) -> web.Response:
    """The form; or straight in with the token that was made up for this start and printed."""
    token = request.query.get("token")
    if token is None:
        return page(request, "login.html", wrong=False)
    return await _let_in(request, token, in_address=True)


async def enter(request: web.Request) -> web.Response:
    """Let someone in who knows a token."""
    form = await form_of(request)
    return await _let_in(request, form.get("token", "").strip(), in_address=False)


async def leave(request: web.Request) -> web.Response:
    """End the session."""
    request.app[CONTEXT].guard.sessions.remove(request.cookies.get(COOKIE, ""))
    response = web.Response(status=303, headers={"Location": "/login"})
    response.del_cookie(COOKIE)
    return response


async def _let_in(request: web.Request, token: str, *, in_address: bool) -> web.Response:
    guard = request.app[CONTEXT].guard
    secret = await guard.log_in(token, request.remote, in_address=in_address)
    if secret is None:
        return page(request, "login.html", status=403, wrong=True)
    response = web.Response(status=303, headers={"Location": "/"})
    guard.give_cookie(response, secret)
    return response
