"""A person and their role, from an issuer's claims; pure."""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

from services.console.access.tokens import Role
from services.text.escaping import plain
from services.text.look_alikes import AS_LATIN

NAME_CHARS_MAX = 200
# Workers decide under the names of _OURS; a `by` with the other prefixes is Kafka's or unproved.
_OURS = frozenset({"answerbus", "policy"})
_OTHER_PROOF = re.compile(r"\s*(kafka|unproved)\s*[:\u02d0\u0589\u05c3\u2236\ua789]")


@dataclass(frozen=True, slots=True)
class Person:
    """Someone whom an issuer knows: `name` is what they sign with, `subject` its own name."""

    role: Role
    name: str
    subject: str


@dataclass(frozen=True, slots=True)
class SignInRefused:
    """Why someone is not let in, in one sentence."""

    why: str


@dataclass(frozen=True, slots=True)
class RoleRule:
    """Which claim names a person, and which values of another give them a role.

    `taken` are the names of tokens, so that what a person does is never taken for a token's.
    """

    name_claim: str
    role_claim: str
    operators: frozenset[str]
    viewers: frozenset[str]
    taken: frozenset[str] = frozenset()
    approvers: frozenset[str] = frozenset()

    def person(self, claims: Mapping[str, object]) -> Person | SignInRefused:
        """The person, if they have a name and a role here."""
        name = claim_at(claims, self.name_claim)
        if not isinstance(name, str) or not _can_sign(name):
            return SignInRefused(
                f"The issuer gives no name that can be recorded in `{self.name_claim}`: see "
                "`console.oidc.name_claim`."
            )
        if self.name_claim == "email" and claims.get("email_verified") is not True:
            return SignInRefused("The issuer has not verified this e-mail address.")
        look = _look_of(name)
        if look in map(_look_of, self.taken):
            return SignInRefused(f"{name} is the name of a token here, so that no person has it.")
        if look in _OURS or _OTHER_PROOF.match(look):
            return SignInRefused(f"{name} stands for others in records, so that no person has it.")
        values = _texts(claim_at(claims, self.role_claim))
        if values & self.operators:
            return Person(Role.OPERATOR, name, str(claims.get("sub")))
        if values & self.approvers:
            return Person(Role.APPROVER, name, str(claims.get("sub")))
        if values & self.viewers:
            return Person(Role.VIEWER, name, str(claims.get("sub")))
        return SignInRefused(
            f"{name} has no role here: nothing in `{self.role_claim}` stands in "
            "`console.oidc.operators`, `approvers` or `viewers`."
        )


def _look_of(name: str) -> str:
    """Alike for names that people take for the same: by width, capitals, accents and script."""
    parts = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", name).casefold())
    return "".join(sign for sign in parts if not unicodedata.combining(sign)).translate(AS_LATIN)


def claim_at(claims: Mapping[str, object], name: str) -> object:
    """The claim of that name, else the one at that path: `realm_access.roles`."""
    if name in claims:
        return claims[name]
    found: object = claims
    for part in name.split("."):
        if not isinstance(found, Mapping):
            return None
        found = found.get(part)
    return found


def _can_sign(name: str) -> bool:
    return 0 < len(name) <= NAME_CHARS_MAX and name == name.strip() and _is_line(name)


def _is_line(text: str) -> bool:
    return plain(text) == text and "\n" not in text and "\t" not in text


def _texts(value: object) -> frozenset[str]:
    found = value if isinstance(value, list) else [value]
    return frozenset(text for text in found if isinstance(text, str))
