"""Sessions of signed-in people, and how long each lasts; pure."""

from dataclasses import dataclass, field

from services.console.access.tokens import Role

SESSIONS_MAX = 1_000  # of one token, or of one person


Holder = tuple[Role, str, bool]


@dataclass(frozen=True, slots=True)
class Session:
    """Someone who was let in; `csrf` is the secret in the forms of these pages, `name` for `by`.

    `at_issuer`: they have a session at the issuer, too.
    """

    role: Role
    name: str
    csrf: str = field(repr=False)
    ends_s: float
    at_issuer: bool = False

    @property
    def holder(self) -> Holder:
        """The token or the person to whom it belongs."""
        return self.role, self.name, self.at_issuer


class Sessions:
    """By the secret in the cookie; in memory alone, so a new start asks for the token again."""

    def __init__(self) -> None:
        self._known: dict[str, Session] = {}  # the one used last is last

    def add(self, secret: str, session: Session) -> None:
        """Let someone in.

        Of more than SESSIONS_MAX by one token, the one unused for longest is out; no other token's.
        """
        holder = session.holder
        of_holder = [one for one, it in self._known.items() if it.holder == holder]
        if len(of_holder) >= SESSIONS_MAX:
            self.remove(of_holder[0])
        self._known[secret] = session

    def find(self, secret: str | None, now_s: float) -> Session | None:
        """The session of a cookie, if it has not ended."""
        session = self._known.pop(secret, None) if secret else None
        if session is None or secret is None or session.ends_s <= now_s:
            return None
        self._known[secret] = session
        return session

    def remove(self, secret: str) -> Session | None:
        """Out; gives the session that there was."""
        return self._known.pop(secret, None)
