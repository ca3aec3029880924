"""Rules by which texts of a recorded workflow are left out before others read it; pure."""

import re
from collections.abc import Collection
from typing import Annotated

from pydantic import Field, JsonValue

REDACTED = "***"
RULES_MAX = 64
MEMBER = "member:"

# Fixed and linear in time: a reader of a cassette applies the rules that are named in it.
_PATTERNS = {
    "emails": re.compile(r"[\w.%+'-]{1,64}@[\w.-]{0,253}\w"),
    "digits": re.compile(r"\d{6,}"),
}
RedactionRule = Annotated[
    str, Field(max_length=128, pattern=r"^(emails|digits|member:[^\x00-\x1f]{1,100})$")
]
"""`emails`, `digits` (six or more in a row), or `member:NAME`: all texts below such members.

A fact is an object with `name` and `value` on the wire, and is a member of that name here.
"""


def redacted(value: JsonValue, rules: Collection[str]) -> JsonValue:
    """The value without what the rules name; names of members stay, and so do other types."""
    patterns = [pattern for name, pattern in _PATTERNS.items() if name in rules]
    members = {rule.removeprefix(MEMBER) for rule in rules if rule.startswith(MEMBER)}
    return _redacted(value, patterns, members, whole=False) if rules else value


def _redacted(
    value: JsonValue, patterns: list[re.Pattern[str]], members: set[str], *, whole: bool
) -> JsonValue:
    match value:
        case str() if whole:
            return REDACTED
        case str():
            for pattern in patterns:
                value = pattern.sub(REDACTED, value)
            return value
        case list():
            return [_redacted(item, patterns, members, whole=whole) for item in value]
        case dict():
            named = {*members, "value"} if _is_in(value.get("name"), members) else members
            return {
                name: _redacted(item, patterns, members, whole=whole or name in named)
                for name, item in value.items()
            }
        case _:
            return value


def _is_in(name: JsonValue, members: set[str]) -> bool:
    return isinstance(name, str) and name in members
