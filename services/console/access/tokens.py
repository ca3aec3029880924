"""Maps a token to its owner and role; pure."""

import hmac
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

from services.settings.console import LOOPBACK

TOKEN_CHARS_MIN = 16
_NONE_NAMED: Mapping[str, str] = MappingProxyType({})


class Role(Enum):
    """Operators see contexts and answers and may act; viewers see neither, and may not.

    Approvers see what runs ask people, and may decide and answer that; else they are viewers.
    """

    OPERATOR = "operator"
    APPROVER = "approver"
    VIEWER = "viewer"


@dataclass(frozen=True, slots=True)
class TokenHolder:
    """The holder of a token; `name` is recorded with each action."""

    role: Role
    name: str


@dataclass(frozen=True, slots=True)
class Tokens:
    """What is to be known to be let in; None: there is no such role.

    `named` are operators with a token of their own, by name, `approvers` those who may approve
    and answer. `made_up_for` is who started a console
    whose operators' token was made up for this start; only such a token may be in an address.
    """

    operator: str | None = field(repr=False)
    viewer: str | None = field(default=None, repr=False)
    named: Mapping[str, str] = field(default_factory=lambda: _NONE_NAMED, repr=False)
    approvers: Mapping[str, str] = field(default_factory=lambda: _NONE_NAMED, repr=False)
    made_up_for: str | None = None

    def holder_of(self, given: str) -> TokenHolder | None:
        """The holder of this token; takes as long for a wrong one as for a right one."""
        found = None
        for token, holder in self._all():
            if hmac.compare_digest(given.encode(), token.encode()):
                found = holder
        return found

    @property
    def any(self) -> bool:
        """Whether there is one at all: people may sign in at an issuer alone."""
        return any(True for _ in self._all())

    def is_for_address(self, given: str) -> bool:
        """Whether this token may be given in an address: those are kept and logged."""
        made_up = self.operator if self.made_up_for is not None else None
        return made_up is not None and hmac.compare_digest(given.encode(), made_up.encode())

    def _all(self) -> Iterator[tuple[str, TokenHolder]]:
        for name, token in self.named.items():
            yield token, TokenHolder(Role.OPERATOR, name)
        for name, token in self.approvers.items():
            yield token, TokenHolder(Role.APPROVER, name)
        if self.operator:
            yield self.operator, TokenHolder(Role.OPERATOR, self.made_up_for or Role.OPERATOR.value)
        if self.viewer:
            yield self.viewer, TokenHolder(Role.VIEWER, Role.VIEWER.value)


def may_start(
    host: str,
    operator: str | None,
    viewer: str | None,
    named: Mapping[str, str] = _NONE_NAMED,
    approvers: Mapping[str, str] = _NONE_NAMED,
    *,
    has_issuer: bool = False,
) -> str | None:
    """Why the console must not be started like this; None if it may."""
    given = [t for t in (operator, viewer, *named.values(), *approvers.values()) if t]
    if any(len(token) < TOKEN_CHARS_MIN for token in given):
        return (
            f"A token of the console has less than {TOKEN_CHARS_MIN} characters: take a longer "
            "one, such as `python -c 'import secrets; print(secrets.token_urlsafe())'` prints."
        )
    if len(set(given)) < len(given):
        return "Two holders of a token of the console have the same token: give each their own."
    if host not in LOOPBACK and operator is None and not named and not has_issuer:
        return (
            f"Beyond this machine ({host}) the console needs a token: name the variable that "
            "holds one with --token-env, in `console.operator_token_env` or in "
            "`console.operators`, or an issuer in `console.oidc`."
        )
    return None
