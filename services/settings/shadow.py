"""`shadow` of a profile: another one that is asked the same, live, and how often."""

from collections.abc import Mapping
from typing import Annotated, Protocol

from pydantic import Field

from answerbus.limits import NAME_CHARS_MAX
from answerbus.wire import Name
from services.settings.section import Number, Section, UsdLimit, Whole

NAMES_CHARS_MAX = NAME_CHARS_MAX - 20  # of both: with a date they name a comparison
USD_PER_DAY_MAX = 1_000_000
CALLS_PER_DAY_MAX = 5_000  # so that a month of them can be read for a page


class ShadowSettings(Section):
    """`{profile = "new", share = 0.05, usd_per_day = 5}`: the profile, its share and its limit.

    `share` is of the answered requests; days are those of UTC.
    """

    profile: Name
    share: Annotated[Number, Field(ge=0, le=1)]
    usd_per_day: Annotated[UsdLimit, Field(ge=0, le=USD_PER_DAY_MAX)]
    calls_per_day: Annotated[Whole, Field(ge=0, le=CALLS_PER_DAY_MAX)] = 1_000


class _WithShadow(Protocol):
    @property
    def shadow(self) -> ShadowSettings | None: ...


def fault_of_shadows(profiles: Mapping[str, _WithShadow]) -> str | None:
    """Why the shadows of all profiles cannot be used, in a sentence that names one."""
    for name, of in profiles.items():
        if of.shadow is None:
            continue
        other = of.shadow.profile
        if other == name:
            return f"`shadow` of the profile `{name}` names the profile itself"
        if other not in profiles:
            return f"`shadow` of the profile `{name}` names an unknown profile, `{other}`"
        if profiles[other].shadow is not None:
            return f"`shadow` of the profile `{name}` names `{other}`, which has a shadow itself"
        if len(name) + len(other) > NAMES_CHARS_MAX:
            return (
                f"`shadow` of the profile `{name}`: its name and that of `{other}` have more than "
                f"{NAMES_CHARS_MAX} characters together, too many to name a comparison"
            )
    return None
