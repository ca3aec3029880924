"""The pages to log in and out."""

from aiohttp import web

from services.console.context import CONTEXT
from services.console.form import form_of, known_names
from services.console.guard import COOKIE, SESSION
from services.console.pages.arrival import forget_goal, goal_of
from services.console.pages.render import page

FORM_BYTES_MAX = 16 * 1024  # read of someone who is not known yet; a token has a few hundred
_WRONG = "That is not a token of this console, or none that may stand in an address."


async def ask(request: web.Request) -> web.Response:
    """The form; or straight in with the token that was made up for this start and printed."""
    token = request.query.get("token")
    if token is None:
        known_names(request, "left")
        left = request.app[CONTEXT].issuer is not None and "left" in request.query
        return page(request, "login.html", wrong=None, left=left)
    if not _may_stand_in_address(request):
        return page(request, "login.html", status=403, wrong=_WRONG, left=False)
    return await _let_in(request, token, in_address=True)


async def enter(request: web.Request) -> web.Response:
    """Let someone in who knows a token."""
    is_known = SESSION in request  # by whose secret the form was read before
    form = await form_of(request if is_known else request.clone(client_max_size=FORM_BYTES_MAX))
    return await _let_in(request, form.get("token", "").strip(), in_address=False)


async def leave(request: web.Request) -> web.Response:
    """End the session; that at the issuer is ended there."""
    session = request.app[CONTEXT].guard.sessions.remove(request.cookies.get(COOKIE, ""))
    location = "/login?left=1" if session and session.at_issuer else "/login"
    response = web.Response(status=303, headers={"Location": location})
    response.del_cookie(COOKIE)
    return response


def _may_stand_in_address(request: web.Request) -> bool:
    """Whether an address with a token may be right, and is opened by a person.

    What a page of somebody else loads, pictures say, is no try, or it could use up all of them.
    """
    is_made_up = request.app[CONTEXT].guard.tokens.made_up_for is not None
    return is_made_up and request.headers.get("Sec-Fetch-Dest", "document") == "document"


async def _let_in(request: web.Request, token: str, *, in_address: bool) -> web.Response:
    guard = request.app[CONTEXT].guard
    secret = await guard.log_in(token, guard.address_of(request), in_address=in_address)
    if secret is None:
        return page(request, "login.html", status=403, wrong=_WRONG, left=False)
    response = web.Response(status=303, headers={"Location": goal_of(request)})
    guard.give_cookie(response, secret)
    forget_goal(response)
    return response
