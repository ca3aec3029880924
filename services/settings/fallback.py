"""`then` of a profile: those that may be asked in its place, and when."""

import re
from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Literal, Protocol

from pydantic import AfterValidator, Field

from answerbus.wire import Name
from services.settings.section import DAY_S, JSON_IN_VARIABLE, Section

FALLBACKS_MAX = 8  # of one profile
CONDITIONS_MAX = 8  # of one fallback
CONDITION_CHARS_MAX = 64
IN_A_ROW_MAX = 8  # fallbacks of fallbacks
FAILURES_MAX = 100

ConditionKind = Literal["unhealthy", "throttled", "invalid", "truncated", "refused"]
_KINDS: Mapping[str, ConditionKind] = {
    "invalid": "invalid",
    "truncated": "truncated",
    "refused": "refused",
}
_FAILED = re.compile(r"(invalid|truncated|refused)(?:\s*>=\s*([0-9]{1,3}))?")
_THROTTLED = re.compile(r"throttled\s*>\s*([0-9]{1,5}(?:\.[0-9]{1,3})?)\s*s")
_EXPECTED = (
    "one of `unhealthy`, `throttled > 20s`, `invalid >= 2`, `truncated` and `refused`, with "
    f"1 to {FAILURES_MAX} failures, and at most {DAY_S} s"
)


def condition_of(text: str) -> tuple[ConditionKind, float]:
    """A kind, and a number of failures, or of a throttled profile seconds. Raises ValueError."""
    if text == "unhealthy":
        return "unhealthy", 1
    if (found := _THROTTLED.fullmatch(text)) and float(found[1]) <= DAY_S:
        return "throttled", float(found[1])
    if (found := _FAILED.fullmatch(text)) and 1 <= int(found[2] or 1) <= FAILURES_MAX:
        return _KINDS[found[1]], int(found[2] or 1)
    raise ValueError(_EXPECTED)


def _is_condition(text: str) -> str:
    condition_of(text)
    return text


_Condition = Annotated[str, Field(max_length=CONDITION_CHARS_MAX), AfterValidator(_is_condition)]


class FallbackSettings(Section):
    """`{profile = "large", on = ["unhealthy", "invalid >= 2"]}`: a profile, and its conditions."""

    profile: Name
    on: Annotated[
        tuple[_Condition, ...], JSON_IN_VARIABLE, Field(min_length=1, max_length=CONDITIONS_MAX)
    ]

    @property
    def conditions(self) -> tuple[tuple[ConditionKind, float], ...]:
        """What `on` says."""
        return tuple(map(condition_of, self.on))


Fallbacks = Annotated[
    tuple[FallbackSettings, ...], JSON_IN_VARIABLE, Field(max_length=FALLBACKS_MAX)
]


class _WithFallbacks(Protocol):
    @property
    def then(self) -> Sequence[FallbackSettings]: ...


def fault_of(profiles: Mapping[str, _WithFallbacks]) -> str | None:
    """Why the fallbacks of all profiles cannot be used, in a sentence that names one."""
    next_of = {name: [one.profile for one in of.then] for name, of in profiles.items()}
    for name, others in next_of.items():
        if name in others:
            return f"`then` of the profile `{name}` names the profile itself"
        if len(set(others)) < len(others):
            return f"`then` of the profile `{name}` names a profile twice: give it all its `on`"
        for other in others:
            if other not in profiles:
                return f"`then` of the profile `{name}` names an unknown profile, `{other}`"
    return _fault_of_ways(next_of)


def _fault_of_ways(next_of: Mapping[str, Sequence[str]]) -> str | None:
    try:
        last_first = [*TopologicalSorter(next_of).static_order()]
    except CycleError as error:
        cycle = reversed(error.args[1])
        return f"`then` leads back to where it began: {' → '.join(f'`{one}`' for one in cycle)}"
    lengths = dict[str, int]()
    for name in last_first:
        lengths[name] = max((lengths[other] + 1 for other in next_of[name]), default=0)
        if lengths[name] > IN_A_ROW_MAX:
            return f"`then` of the profile `{name}` leads to more than {IN_A_ROW_MAX} in a row"
    return None
