"""Who may see and do what: roles, tokens, sessions, and which requests are the pages' own; pure."""

import hmac
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from urllib.parse import urlsplit

SESSION_S = 12 * 3_600
SESSIONS_MAX = 1_000  # of one token
TOKEN_CHARS_MIN = 16
HTTP_PORT = 80  # which browsers leave out of `Host` and `Origin`
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
EVERY_ADDRESS = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared with, not listened at
_NONE_NAMED: Mapping[str, str] = MappingProxyType({})


class Role(Enum):
    """Operators see contexts and answers and may act; viewers see neither, and may not."""

    OPERATOR = "operator"
    VIEWER = "viewer"


@dataclass(frozen=True, slots=True)
class TokenHolder:
    """Whose token it is; `name` is recorded with what they do."""

    role: Role
    name: str


@dataclass(frozen=True, slots=True)
class Tokens:
    """What is to be known to be let in; None lets nobody in as that.

    `named` are operators with a token of their own, by name. `made_up_for` is who started a console
    whose operators' token was made up for this start; only such a token may stand in an address.
    """

    operator: str | None = field(repr=False)
    viewer: str | None = field(default=None, repr=False)
    named: Mapping[str, str] = field(default_factory=lambda: _NONE_NAMED, repr=False)
    made_up_for: str | None = None

    def holder_of(self, given: str) -> TokenHolder | None:
        """Whose token this is; takes as long for a wrong one as for a right one."""
        found = None
        for token, holder in self._all():
            if hmac.compare_digest(given.encode(), token.encode()):
                found = holder
        return found

    def is_for_address(self, given: str) -> bool:
        """Whether this token may be given in an address: those are kept and logged."""
        made_up = self.operator if self.made_up_for is not None else None
        return made_up is not None and hmac.compare_digest(given.encode(), made_up.encode())

    def _all(self) -> Iterator[tuple[str, TokenHolder]]:
        for name, token in self.named.items():
            yield token, TokenHolder(Role.OPERATOR, name)
        if self.operator:
            yield self.operator, TokenHolder(Role.OPERATOR, self.made_up_for or Role.OPERATOR.value)
        if self.viewer:
            yield self.viewer, TokenHolder(Role.VIEWER, Role.VIEWER.value)


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
        self._known: dict[str, Session] = {}  # the one used last stands last

    def add(self, secret: str, session: Session) -> None:
        """Let someone in.

        Of more than SESSIONS_MAX by one token, the one unused for longest is out; no other token's.
        """
        holder = (session.role, session.name)
        of_holder = [one for one, it in self._known.items() if (it.role, it.name) == holder]
        if len(of_holder) >= SESSIONS_MAX:
            self.remove(of_holder[0])
        self._known[secret] = session

    def find(self, secret: str | None, now_s: float) -> Session | None:
        """Whose session it is, if it has not ended."""
        session = self._known.pop(secret, None) if secret else None
        if session is None or secret is None or session.ends_s <= now_s:
            return None
        self._known[secret] = session
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
    if host in EVERY_ADDRESS:
        names = LOOPBACK  # of the others we do not know by which names we are reached
    bare = {f"[{name}]" if ":" in name else name for name in names}
    hosts = {f"{name}:{port}" for name in bare} | (bare if port == HTTP_PORT else set())
    origins = {f"http://{name}" for name in hosts}
    if public_url:
        parts = urlsplit(public_url.lower())
        hosts.add(parts.netloc)
        origins.add(f"{parts.scheme}://{parts.netloc}")
    return Origins(frozenset(hosts), frozenset(origins))


def may_start(
    host: str,
    operator: str | None,
    viewer: str | None,
    named: Mapping[str, str] = _NONE_NAMED,
) -> str | None:
    """Why the console must not be started like this; None if it may."""
    given = [token for token in (operator, viewer, *named.values()) if token]
    if any(len(token) < TOKEN_CHARS_MIN for token in given):
        return (
            f"A token of the console has less than {TOKEN_CHARS_MIN} characters: take a longer "
            "one, such as `python -c 'import secrets; print(secrets.token_urlsafe())'` prints."
        )
    if len(set(given)) < len(given):
        return "Two holders of a token of the console have the same token: give each their own."
    if host not in LOOPBACK and operator is None and not named:
        return (
            f"Beyond this machine ({host}) the console needs a token: name the variable that "
            "holds one with --token-env, in `console.operator_token_env` or in `console.operators`."
        )
    return None


def advice_on(host: str, public_url: str | None) -> str | None:
    """What is still to be set before browsers elsewhere reach the console; None if nothing is."""
    if host not in EVERY_ADDRESS or public_url:
        return None
    return (
        f"It listens at every address ({host}), and answers browsers on this machine alone: set "
        "`console.public_url` to the address that is typed into a browser, such as "
        '"https://answers.acme.example" or "http://10.0.0.7:8090".'
    )
