"""The checks of every request before its page: address, session, and CSRF token."""

import asyncio
import hmac
import logging
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from aiohttp import web

from services.console.access.client_address import Network, client_address
from services.console.access.login_throttle import WAIT_S_MAX, LoginThrottle
from services.console.access.origins import Origins
from services.console.access.person import Person
from services.console.access.sessions import Session, Sessions
from services.console.access.sign_in import SignIns
from services.console.access.tokens import Role, Tokens
from services.console.form import form_of
from services.settings.console import SESSION_S_MAX

COOKIE = "answerbus_console"
CSRF_FIELD = "csrf"
OPEN_PATHS = ("/login", "/static/", "/runbooks/")
MAY_DECIDE = frozenset({Role.OPERATOR, Role.APPROVER})
_SECRET_BYTES = 32

SESSION: web.RequestKey[Session] = web.RequestKey("session", Session)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Guard:
    """The rules of access/, over HTTP.

    `session_s` is how long someone stays let in; `proxies` are those whose word for the address of
    a browser is taken.
    """

    tokens: Tokens
    origins: Origins
    secure_cookie: bool
    sessions: Sessions
    session_s: int = SESSION_S_MAX
    proxies: Sequence[Network] = ()
    throttle: LoginThrottle = field(default_factory=LoginThrottle)
    sign_ins: SignIns = field(default_factory=lambda: SignIns(secrets.token_bytes(_SECRET_BYTES)))

    def address_of(self, request: web.Request) -> str | None:
        """The address that tries are counted by."""
        forwarded = request.headers.getall("X-Forwarded-For", [])
        return client_address(request.remote, forwarded, self.proxies)

    async def log_in(self, token: str, address: str | None, *, in_address: bool) -> str | None:
        """The secret of a new session's cookie; None for a wrong token.

        Raises HTTPTooManyRequests for an address that tries too many.
        """
        await self.slow_down(address)  # also for the right one, or guesses would not be bounded
        holder = self.tokens.holder_of(token)
        if in_address and not self.tokens.is_for_address(token):
            holder = None
        if holder is None:
            _log.warning("a wrong token from %s", address)
            return None
        self.throttle.let_in(address)
        _log.info("%s logged in as %s from %s", holder.name, holder.role.value, address)
        return self._begin(holder.role, holder.name)

    def let_in(self, person: Person, address: str | None) -> str:
        """The secret of a new session's cookie, for someone whom the issuer knows."""
        role, name = person.role.value, person.name
        self.throttle.let_in(address)
        _log.info("%s (%r) signed in as %s from %s", name, person.subject, role, address)
        return self._begin(person.role, person.name, at_issuer=True)

    async def slow_down(self, address: str | None) -> None:
        """Wait for this try's turn. Raises HTTPTooManyRequests where too many wait."""
        wait_s = self.throttle.wait_s(address, asyncio.get_running_loop().time())
        if wait_s is None:
            _log.warning("too many logins: one from %s is refused unread", address)
            text = f"Too many logins are tried: wait {WAIT_S_MAX:g} s."
            raise web.HTTPTooManyRequests(text=text)
        await asyncio.sleep(wait_s)

    def _begin(self, role: Role, name: str, *, at_issuer: bool = False) -> str:
        csrf, secret = (secrets.token_urlsafe(_SECRET_BYTES) for _ in range(2))
        session = Session(role, name, csrf, time.time() + self.session_s, at_issuer)
        self.sessions.add(secret, session)
        return secret

    def give_cookie(self, response: web.StreamResponse, secret: str) -> None:
        """For this host and its own pages alone, unseen by scripts."""
        response.set_cookie(
            COOKIE,
            secret,
            max_age=self.session_s,
            httponly=True,
            samesite="Strict",
            secure=self.secure_cookie,
        )

    async def admit(self, request: web.Request) -> None:
        """Raises the answer for those who may not go on; else `session_of` knows who asks."""
        session = self.sessions.find(request.cookies.get(COOKIE), time.time())
        if session is not None:
            request[SESSION] = session
        elif not request.path.startswith(OPEN_PATHS):
            if request.method in ("GET", "HEAD"):
                raise web.HTTPSeeOther("/login")
            raise web.HTTPUnauthorized(text="Log in first.")
        if request.method not in ("GET", "HEAD"):
            await self._require_own(request, session)

    async def _require_own(self, request: web.Request, session: Session | None) -> None:
        headers = request.headers
        if not self.origins.is_own(headers.get("Origin"), headers.get("Sec-Fetch-Site")):
            _log.warning("refused a form from elsewhere: %s", request.path)
            raise web.HTTPForbidden(text="This form was not sent from a page of this console.")
        if session is None:
            return  # logging in: there the token is the proof
        given = (await form_of(request)).get(CSRF_FIELD, "")
        if not hmac.compare_digest(given.encode(), session.csrf.encode()):
            raise web.HTTPForbidden(text="This form is not from this session: load the page again.")


def session_of(request: web.Request) -> Session:
    if SESSION not in request:
        raise web.HTTPUnauthorized(text="Log in first.")
    return request[SESSION]


def operator_of(request: web.Request) -> Session:
    """The session of a request that may change things; raises 403 else."""
    session = session_of(request)
    if session.role is not Role.OPERATOR:
        raise web.HTTPForbidden(text="Only operators can change this.")
    return session


def approver_of(request: web.Request) -> Session:
    """The session of a request that decides about calls and answers questions; raises 403 else."""
    session = session_of(request)
    if session.role not in MAY_DECIDE:
        raise web.HTTPForbidden(text="Viewers cannot change anything.")
    return session
