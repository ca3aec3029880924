"""Keeps the page that a link led to, from other sites and through the login."""

from aiohttp import web

from services.console.pages.frame import OWN_PATH
from services.console.pages.render import page

COOKIE = "answerbus_goal"
GOAL_S = 600  # as long as a sign-in at an issuer may take
GOAL_CHARS_MAX = 2_000  # a cookie has 4 KB
_PATH = "/login"
_HOME = "/"


def without_session(request: web.Request) -> web.Response:
    """The login, which leads back here.

    From another site browsers do not send the cookie of a session, which is `SameSite=Strict`; once
    the page asks for itself, they do.
    """
    goal = _own(request.path_qs)
    if request.headers.get("Sec-Fetch-Site") == "cross-site":
        return page(request, "again.html", goal=goal)
    response = web.Response(status=303, headers={"Location": "/login"})
    if "text/html" in request.headers.get("Accept", ""):  # a page, and no part of one
        response.set_cookie(COOKIE, goal, path=_PATH, max_age=GOAL_S, httponly=True, samesite="Lax")
    return response


def goal_of(request: web.Request) -> str:
    """Where to go after the login."""
    return _own(request.cookies.get(COOKIE, _HOME))


def forget_goal(response: web.Response) -> None:
    response.del_cookie(COOKIE, path=_PATH)


def _own(path: str) -> str:
    """A link to another site would send people on from here."""
    return path if len(path) <= GOAL_CHARS_MAX and OWN_PATH.fullmatch(path) else _HOME
