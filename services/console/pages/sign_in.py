"""The pages that send a person to the issuer and receive them back."""

import logging
import secrets
import time
from http import HTTPStatus

from aiohttp import web

from services.console.access.person import Person, SignInRefused
from services.console.access.sign_in import SIGN_IN_S
from services.console.context import CONTEXT
from services.console.oidc.fetching import error_code, refused
from services.console.oidc.issuer import Issuer
from services.console.pages.arrival import forget_goal, goal_of
from services.console.pages.render import page

_log = logging.getLogger(__name__)

BACK = "/login/callback"
COOKIE = "answerbus_sign_in"
_COOKIE_PATH = "/login"
_CHANCE_BYTES = 32
_NOT_BEGUN = (
    "This sign-in was not begun in this browser, or longer than "
    f"{SIGN_IN_S // 60} minutes ago, or came back before: begin again."
)


async def begin(request: web.Request) -> web.Response:
    """Off to the issuer, with what proves afterwards that it was this browser."""
    guard = request.app[CONTEXT].guard
    sign_in = guard.sign_ins.begin(secrets.token_urlsafe(_CHANCE_BYTES), time.time())
    address = await _issuer(request).sign_in_address(sign_in, _own(request) + BACK)
    if isinstance(address, SignInRefused):
        return _refused(request, address, HTTPStatus.BAD_GATEWAY)
    response = web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": address})
    response.set_cookie(
        COOKIE,
        sign_in.cookie,
        path=_COOKIE_PATH,
        max_age=SIGN_IN_S,
        httponly=True,
        secure=guard.secure_cookie,
        samesite="Lax",  # it must come along when the issuer sends the browser back
    )
    return response


async def come_back(request: web.Request) -> web.Response:
    """In, if the issuer has said who that is, and they have a role here."""
    guard, query = request.app[CONTEXT].guard, request.query
    issuer, address = _issuer(request), guard.address_of(request)
    cookie, state = request.cookies.get(COOKIE, ""), _one(request, "state")
    if cookie:  # which browsers do not send for what pages of others load
        await guard.slow_down(address)  # before the issuer is asked: each try asks it twice
    sign_in = guard.sign_ins.resume(cookie, state, time.time())
    if sign_in is None:
        found: Person | SignInRefused = SignInRefused(_NOT_BEGUN)
    elif "error" in query or not _one(request, "code"):
        found = refused(f"did not let you in{error_code(_one(request, 'error'))}")
    else:
        named = _one(request, "iss") if "iss" in query else None
        found = await issuer.person(sign_in, _one(request, "code"), named, _own(request) + BACK)
    if isinstance(found, SignInRefused):
        _log.warning("a sign-in from %s is refused: %s", address, found.why)
        return _refused(request, found, HTTPStatus.FORBIDDEN)
    secret = guard.let_in(found, address)
    # A page and no redirect: a browser that comes from the issuer's site does not yet send the
    # cookie of the session, which is for navigation within our own pages alone.
    response = page(request, "signed_in.html", name=found.name, goal=goal_of(request))
    guard.give_cookie(response, secret)
    forget_goal(response)
    response.del_cookie(COOKIE, path=_COOKIE_PATH)
    return response


async def log_out_there(request: web.Request) -> web.Response:
    """To where the session at the issuer is ended."""
    address = await _issuer(request).logout_address(_own(request) + "/login")
    if isinstance(address, SignInRefused):
        return _refused(request, address, HTTPStatus.BAD_GATEWAY)
    return web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": address})


def _issuer(request: web.Request) -> Issuer:
    issuer = request.app[CONTEXT].issuer
    if issuer is None:
        raise web.HTTPNotFound(text="Here people log in with tokens.")
    return issuer


def _own(request: web.Request) -> str:
    """Our own address, by the name that the browser has for it; the guard knows that name."""
    return request.app[CONTEXT].guard.origins.address_of(request.host)


def _one(request: web.Request, name: str) -> str:
    """A parameter that is there once; what is given twice is nothing."""
    given = request.query.getall(name, [])
    return given[0] if len(given) == 1 else ""


def _refused(request: web.Request, why: SignInRefused, status: HTTPStatus) -> web.Response:
    response = page(request, "login.html", status, wrong=why.why, left=False)
    response.del_cookie(COOKIE, path=_COOKIE_PATH)
    return response
