"""The rule of fallback, as tables: who is asked next."""

from collections.abc import Mapping

import pytest

from answerbus import failure
from answerbus.failure import Failure
from answerbus.limits import PROFILES_FAILED_MAX
from answerbus.outcome import ProfileFailures
from services.worker.core.attempt.fallback import (
    HEALTHY,
    Condition,
    Failed,
    Fallback,
    FallbackRule,
    Hop,
    ProfileHealth,
    failures_of,
    with_failure,
)

AWAY, BUSY = ProfileHealth(is_unhealthy=True), ProfileHealth(throttled_s=30.0)
UNHEALTHY, THROTTLED = Condition("unhealthy"), Condition("throttled", 20.0)
INVALID_TWICE, CUT, REFUSED = Condition("invalid", 2), Condition("truncated"), Condition("refused")
ALL = (UNHEALTHY, THROTTLED, INVALID_TWICE, CUT, REFUSED)

WRONG = failure.Invalid(problems=())
NO_JSON = failure.Malformed(position=0, excerpt="")
CUT_AT = failure.Truncated(limit=5)
DECLINED = failure.Refused(reason="no")


Then = Mapping[str, list[tuple[str, tuple[Condition, ...]]]]


def after(*failures: tuple[str, Failure]) -> Failed:
    failed: Failed = ()
    for profile, why in failures:
        failed = with_failure(failed, profile, why)
    return failed


def asked(
    then: Then,
    failed: Failed = (),
    health: Mapping[str, ProfileHealth] = {},
    left_out: frozenset[Hop] = frozenset(),
) -> list[str]:
    """The profiles on the way from `small`."""
    rule = FallbackRule(
        lambda name: [Fallback(*one) for one in then.get(name, [])],
        lambda name: health.get(name, HEALTHY),
        failed,
        left_out,
    )
    return [hop.profile for hop in rule.hops_from("small")]


TO_LARGE: Then = {"small": [("large", ALL)]}


@pytest.mark.parametrize(
    ("failed", "health", "profiles"),
    [
        ((), {}, []),
        (after(("small", WRONG)), {}, []),
        (after(("small", WRONG), ("small", NO_JSON)), {}, ["large"]),
        (after(("small", CUT_AT)), {}, ["large"]),
        (after(("small", DECLINED)), {}, ["large"]),
        (after(("small", failure.TimedOut(after_s=1)), ("small", WRONG)), {}, []),
        (after(("large", CUT_AT)), {}, []),
        ((), {"small": AWAY}, ["large"]),
        ((), {"small": BUSY}, ["large"]),
        ((), {"small": ProfileHealth(throttled_s=20.0)}, []),
        ((), {"small": AWAY, "large": AWAY}, []),
        ((), {"small": AWAY, "large": ProfileHealth(throttled_s=0.1)}, []),
        (after(("small", CUT_AT)), {"small": AWAY, "large": AWAY}, ["large"]),
    ],
)
def test_who_is_asked(
    failed: Failed, health: Mapping[str, ProfileHealth], profiles: list[str]
) -> None:
    assert asked(TO_LARGE, failed, health) == profiles


def test_the_first_fallback_that_can_help_is_taken_and_then_its_own() -> None:
    then: Then = {
        "small": [("other", (UNHEALTHY,)), ("large", (UNHEALTHY, INVALID_TWICE))],
        "other": [("far", (UNHEALTHY,))],
        "large": [("huge", (CUT,))],
    }
    wrong = after(("small", WRONG), ("small", WRONG))

    assert asked(then, health={"small": AWAY}) == ["other"]
    assert asked(then, health={"small": AWAY, "other": AWAY}) == ["other", "far"]
    assert asked(then, health={"small": AWAY, "other": AWAY, "far": AWAY}) == ["large"]
    assert asked(then, wrong) == ["large"]
    assert asked(then, with_failure(wrong, "large", CUT_AT)) == ["large", "huge"]


def test_a_hop_that_is_left_out_gives_way_to_the_next() -> None:
    then: Then = {"small": [("large", (CUT,)), ("other", (CUT,))]}
    hop = Hop("small", "large", CUT)

    assert asked(then, after(("small", CUT_AT)), left_out=frozenset({hop})) == ["other"]


def test_a_circle_has_an_end_even_if_nobody_has_refused_it() -> None:
    then: Then = {"small": [("large", (CUT,))], "large": [("small", (CUT,))]}

    assert asked(then, after(("small", CUT_AT), ("large", CUT_AT))) == ["large", "small"]


def test_a_note_says_who_was_asked_and_why() -> None:
    failed = after(("small", WRONG), ("small", WRONG))
    hops = FallbackRule(lambda _: [Fallback("large", ALL)], lambda _: BUSY, failed).hops_from(
        "small"
    )

    assert hops[0].note == "profile large was asked in place of small: invalid >= 2"
    assert [str(one) for one in ALL] == [
        *("unhealthy", "throttled > 20s", "invalid >= 2", "truncated", "refused")
    ]


def test_failures_of_a_profile_are_counted_by_kind() -> None:
    late = failure.TimedOut(after_s=1.0)
    of_small = (WRONG, NO_JSON, CUT_AT, DECLINED, DECLINED, late)
    failed = after(*(("small", why) for why in of_small), ("large", WRONG))

    small = ProfileFailures(profile="small", invalid=2, truncated=1, refused=2)
    assert failed == (small, ProfileFailures(profile="large", invalid=1))
    assert failures_of(failed, "small", "refused") == 2
    assert failures_of(failed, "other", "invalid") == 0


def test_failures_of_so_many_profiles_are_counted() -> None:
    failed = after(*((f"p-{number}", CUT_AT) for number in range(PROFILES_FAILED_MAX + 5)))

    assert [one.profile for one in failed] == [f"p-{5 + n}" for n in range(PROFILES_FAILED_MAX)]
