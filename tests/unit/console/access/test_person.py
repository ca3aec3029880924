"""Whom an issuer names, beside the names of tokens."""

from dataclasses import replace

import pytest

from services.console.access.person import Person, RoleRule, SignInRefused
from services.console.access.tokens import Role

RULE = RoleRule("name", "groups", frozenset({"ops"}), frozenset(), frozenset({"night", "José"}))
WIDE = "".join(chr(ord(sign) + 0xFEE0) for sign in "night")


@pytest.mark.parametrize(
    "name",
    ["night", "Night", f"{WIDE[0]}ight", WIDE, "n\u0456ght", "n\u00edght", "nig\u04bbt", "jose"],
)
def test_nobody_signs_in_with_a_name_that_looks_like_a_tokens(name: str) -> None:
    found = RULE.person({"name": name, "groups": ["ops"], "sub": "1"})
    assert isinstance(found, SignInRefused)
    assert "token" in found.why


@pytest.mark.parametrize(
    "name",
    [
        *("kafka:ann", "Kafka: ann", "k\u0430fka:ann", "kafka\uff1aann", "kafka\ua789ann"),
        *("unproved:ann", "answerbus", "Policy"),
    ],
)
def test_nobody_signs_in_with_a_name_of_another_proof_or_of_workers(name: str) -> None:
    found = RULE.person({"name": name, "groups": ["ops"], "sub": "1"})
    assert isinstance(found, SignInRefused)
    assert "stands for others" in found.why


@pytest.mark.parametrize(
    "name",
    ["knight", "nights", "\u041d\u043e\u0447\u044c", "\u591c", "kafka@acme", "policy.ann"],
)
def test_other_names_are_let_in(name: str) -> None:
    assert isinstance(RULE.person({"name": name, "groups": ["ops"], "sub": "1"}), Person)


@pytest.mark.parametrize(
    ("groups", "role"),
    [
        (["desk"], Role.APPROVER),
        (["desk", "staff"], Role.APPROVER),
        (["desk", "ops"], Role.OPERATOR),
        (["staff"], Role.VIEWER),
    ],
)
def test_a_person_has_the_first_of_their_roles(groups: list[str], role: Role) -> None:
    rule = replace(RULE, viewers=frozenset({"staff"}), approvers=frozenset({"desk"}))
    found = rule.person({"name": "ann", "groups": groups, "sub": "1"})

    assert isinstance(found, Person)
    assert found.role is role
