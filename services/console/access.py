"""Who may see and do what: roles, tokens, sessions, and which requests are the pages' own; pure."""

import hmac
from dataclasses import dataclass, field
from enum import Enum
from urllib.parse import urlsplit

SESSION_S = 12 * 3_600
SESSIONS_MAX = 1_000
TOKEN_CHARS_MIN = 16
HTTP_PORT = 80  # which browsers leave out of `Host` and `Origin`
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class Role(Enum):
    """Operators see contexts and answers and may act; viewers see neither, and may not."""

    OPERATOR = "operator"
    VIEWER = "viewer"


@dataclass(frozen=True, slots=True)
class Tokens:
    """What is to be known to be let in; None lets nobody in as that."""

    operator: str = field(repr=False)
    viewer: str | None = field(default=None, repr=False)

    def role_of(self, given: str) -> Role | None:
        """Whose token this is; takes as long for a wrong one as for a right one."""
        operator = hmac.compare_digest(given.encode(), self.operator.encode())
        viewer = hmac.compare_digest(given.encode(), (self.viewer or "").encode())
        if operator:
            return Role.OPERATOR
        return Role.VIEWER if viewer and self.viewer else None


@dataclass(frozen=True, slots=True)
class Session:
    """Someone who was let in; `csrf` is the secret in the forms of these pages, `name` for `by`."""

    role: Role
    name: str
    csrf: str = field(repr=False)
    ends_s: float


class Sessions:
    """By the secret in the cookie; in memory alone, so a new start asks for the token again."""

    def __init__(self) -> None:
        self._known: dict[str, Session] = {}

    def add(self, secret: str, session: Session) -> None:
        """Let someone in; beyond SESSIONS_MAX the oldest one is out."""
        if len(self._known) >= SESSIONS_MAX:
            self._known.pop(next(iter(self._known)))
        self._known[secret] = session

    def find(self, secret: str | None, now_s: float) -> Session | None:
        """Whose session it is, if it has not ended."""
        session = self._known.get(secret) if secret else None
        if session is None or secret is None:
            return None
        if session.ends_s <= now_s:
            self.remove(secret)
            return None
        return session

    def remove(self, secret: str) -> None:
        """Out."""
        self._known.pop(secret, None)


@dataclass(frozen=True, slots=True)
class Origins:
    """The names under which the console is reached, as `Host` and `Origin` give them."""

    hosts: frozenset[str]
    origins: frozenset[str]

    def is_host(self, host: str | None) -> bool:
        """Whether a request was meant for us; a name that was rebound to our address was not."""
        return (host or "").lower() in self.hosts

    def is_own(self, origin: str | None, fetch_site: str | None) -> bool:
        """Whether a form was sent from a page of ours; without either header nobody can know."""
        if origin is not None:
            return origin.lower() in self.origins and fetch_site in (None, "same-origin")
        return fetch_site == "same-origin"


def origins_of(host: str, port: int, public_url: str | None) -> Origins:
    """Of the address that is listened on, and of the URL that a proxy in front is reached by."""
    names = LOOPBACK if host in LOOPBACK else {host}
    bare = {f"[{name}]" if ":" in name else name for name in names}
    hosts = {f"{name}:{port}" for name in bare} | (bare if port == HTTP_PORT else set())
    origins = {f"http://{name}" for name in hosts}
    if public_url:
        parts = urlsplit(public_url.lower())
        hosts.add(parts.netloc)
        origins.add(f"{parts.scheme}://{parts.netloc}")
    return Origins(frozenset(hosts), frozenset(origins))


def may_start(host: str, operator: str | None, viewer: str | None) -> str | None:
    """Why the console must not be started like this; None if it may."""
    given = [token for token in (operator, viewer) if token]
    if any(len(token) < TOKEN_CHARS_MIN for token in given):
        return (
            f"A token of the console has less than {TOKEN_CHARS_MIN} characters: take a longer "
            "one, such as `python -c 'import secrets; print(secrets.token_urlsafe())'` prints."
        )
    if len(set(given)) < len(given):
        return "Operators and viewers of the console have the same token: give each their own."
    if host not in LOOPBACK and operator is None:
        return (
            f"Beyond this machine ({host}) the console needs a token: name the variable that "
            "holds one with --token-env, or in `console.operator_token_env`."
        )
    return None
