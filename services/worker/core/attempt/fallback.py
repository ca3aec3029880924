"""The rule of fallback: the next profile, by recorded failures and the health of profiles; pure.

It is applied again before each call. Nothing is remembered but how attempts failed, which stands in
the record of a retry: after a crash, or on another worker, the same profile is chosen.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, assert_never

from answerbus import limits
from answerbus.failure import Failure, Invalid, Malformed, Refused, Truncated
from answerbus.outcome import ProfileFailures

FailureKind = Literal["invalid", "truncated", "refused"]
ConditionKind = Literal["unhealthy", "throttled"] | FailureKind


@dataclass(frozen=True, slots=True)
class Condition:
    """When a hop is taken; `bound` is a number of failures, or of a throttled profile seconds."""

    kind: ConditionKind
    bound: float = 1

    def __str__(self) -> str:
        """As in the settings."""
        match self.kind:
            case "unhealthy":
                return self.kind
            case "throttled":
                return f"{self.kind} > {self.bound:g}s"
            case "invalid" | "truncated" | "refused":
                return self.kind if self.bound == 1 else f"{self.kind} >= {self.bound:g}"
            case _:
                assert_never(self.kind)


@dataclass(frozen=True, slots=True)
class Fallback:
    """One of those that may be asked in the place of a profile, on any of its conditions."""

    profile: str
    on: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Hop:
    """From a profile to one of its fallbacks."""

    instead_of: str
    profile: str
    because: Condition

    @property
    def note(self) -> str:
        """For readers of the outcome."""
        return f"profile {self.profile} was asked in place of {self.instead_of}: {self.because}"

    def note_if_left_out(self, why: str) -> str:
        return f"profile {self.profile} was not asked in place of {self.instead_of}: {why}"


@dataclass(frozen=True, slots=True)
class ProfileHealth:
    """`throttled_s` is how long it will have been throttled by when it can be asked again."""

    is_unhealthy: bool = False
    throttled_s: float = 0.0


HEALTHY = ProfileHealth()
Failed = tuple[ProfileFailures, ...]
"""How attempts failed, by the profile that was asked."""


@dataclass(frozen=True, slots=True)
class FallbackRule:
    """`fallbacks` of a profile, its health now, how attempts failed, and hops not to take."""

    fallbacks: Callable[[str], Sequence[Fallback]]
    health: Callable[[str], ProfileHealth]
    failed: Failed
    left_out: Collection[Hop] = ()
    known: dict[str, tuple[Hop, ...]] = field(default_factory=dict)

    def hops_from(self, profile: str) -> tuple[Hop, ...]:
        """From a profile to the one that is asked in its place; empty where it is asked itself.

        The first fallback in order that has a condition which holds; then those of that one. One
        whose provider is away or throttled is no help to another like that, but a better one to
        an answer that was wrong. Each profile is looked at once.
        """
        if profile not in self.known:
            self.known[profile] = ()  # also if it should lead back to itself
            self.known[profile] = self._first_from(profile)
        return self.known[profile]

    def _first_from(self, profile: str) -> tuple[Hop, ...]:
        for hop in self._possible(profile):
            if hop not in self.left_out:
                hops = (hop, *self.hops_from(hop.profile))
                if _is_by_failures(hop.because) or not self._is_away(hops[-1].profile):
                    return hops
        return ()

    def _possible(self, profile: str) -> Iterator[Hop]:
        for fallback in self.fallbacks(profile):
            held = [one for one in fallback.on if self._holds(one, profile)]
            if held:
                yield Hop(profile, fallback.profile, max(held, key=_is_by_failures))

    def _holds(self, condition: Condition, profile: str) -> bool:
        match condition.kind:
            case "unhealthy":
                return self.health(profile).is_unhealthy
            case "throttled":
                return self.health(profile).throttled_s > condition.bound
            case "invalid" | "truncated" | "refused":
                return failures_of(self.failed, profile, condition.kind) >= condition.bound
            case _:
                assert_never(condition.kind)

    def _is_away(self, profile: str) -> bool:
        health = self.health(profile)
        return health.is_unhealthy or health.throttled_s > 0


def _is_by_failures(condition: Condition) -> bool:
    return condition.kind not in {"unhealthy", "throttled"}


def failures_of(failed: Failed, profile: str, kind: FailureKind) -> int:
    """How many attempts of a profile failed in this way."""
    found = next((one for one in failed if one.profile == profile), None)
    return getattr(found, kind) if found else 0


def with_failure(failed: Failed, profile: str, failure: Failure) -> Failed:
    """With one attempt more; most other failures say something of the health of its profile."""
    kind = kind_of(failure)
    if kind is None:
        return failed
    known = {one.profile: one for one in failed}
    before = known.get(profile, ProfileFailures(profile=profile))
    known[profile] = before.model_copy(update={kind: getattr(before, kind) + 1})
    return tuple(known.values())[-limits.PROFILES_FAILED_MAX :]


def kind_of(failure: Failure) -> FailureKind | None:
    """An answer that is not JSON is invalid, too."""
    match failure:
        case Malformed() | Invalid():
            return "invalid"
        case Truncated():
            return "truncated"
        case Refused():
            return "refused"
        case _:
            return None


def throttled_bound_s(fallbacks: Sequence[Fallback]) -> float | None:
    """After so many seconds of throttling another one is asked, at the earliest."""
    bounds = (one.bound for of in fallbacks for one in of.on if one.kind == "throttled")
    return min(bounds, default=None)
