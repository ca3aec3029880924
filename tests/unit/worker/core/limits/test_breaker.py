"""When a provider is left alone, for how long, and what lets all calls through again."""

import pytest

from services.worker.core.attempt.reply import (
    Answered,
    CallFacts,
    NoAnswer,
    Refused,
    Rejected,
    Reply,
    Throttled,
    TimedOut,
    Truncated,
    Unavailable,
)
from services.worker.core.limits.breaker import (
    FAILURES_BEFORE_OPEN,
    LATELY_S,
    PAUSE_MAX_S,
    PROVIDER_PAUSE_MAX_S,
    SETUP_FAULT_PAUSE_S,
    SHORT_PAUSE_S,
    Breaker,
)
from services.worker.core.limits.profile_problem import ProfileProblem
from services.worker.core.limits.response_watchdog import RECENTLY_S

AWAY, SLOW, BUSY = Unavailable(503, ran=False), TimedOut(60.0), Throttled(None)
ANSWERED, FORBIDDEN = Answered("{}", CallFacts()), Rejected("profile", 403, None)
NOW = 1_000.0


def after(*replies: Reply, is_probe: bool = False) -> Breaker:
    breaker = Breaker()
    for reply in replies:
        breaker.report(reply, NOW, 2.0, is_probe=is_probe)
    return breaker


def test_pauses_grow_up_to_a_longest_one_however_often_a_provider_fails() -> None:
    breaker, now, pauses = Breaker(), NOW, []
    for _ in range(2_000):
        breaker.report(AWAY, now, 0.1, is_probe=True)
        pauses.append(breaker.pause_s(now))
        now += pauses[-1]

    assert pauses[:5] == [1.0, 2.0, 4.0, 8.0, 15.0]
    assert set(pauses[4:]) == {PAUSE_MAX_S}


def test_calls_that_began_before_a_provider_was_left_alone_are_one_fault() -> None:
    assert after(*[AWAY] * 300).pause_s(NOW) == 1.0


def test_a_few_slow_answers_in_a_row_leave_nobody_alone() -> None:
    assert not after(*[SLOW] * (FAILURES_BEFORE_OPEN - 1)).is_open
    assert not after(*[SLOW] * (FAILURES_BEFORE_OPEN - 1), ANSWERED, SLOW).is_open
    assert after(*[SLOW] * FAILURES_BEFORE_OPEN).is_away


@pytest.mark.parametrize("busy", [BUSY, Throttled(SHORT_PAUSE_S)])
def test_who_is_asked_too_often_is_not_away(busy: Reply) -> None:
    assert (after(busy).is_away, after(busy).throttled_since) == (False, NOW)
    assert (after(AWAY).is_away, after(AWAY).throttled_since) == (True, None)
    assert (after().is_away, after().throttled_since) == (False, None)
    assert after(busy, AWAY).throttled_since == NOW, "the same fault still"


def test_a_pause_that_a_provider_names_is_kept_and_no_shorter_one_takes_its_place() -> None:
    assert after(Throttled(30.0), Throttled(2.0)).pause_s(NOW) == 30.0
    assert after(Throttled(86_400.0)).pause_s(NOW) == PROVIDER_PAUSE_MAX_S
    paced = after(Throttled(0.5), Throttled(0.2))
    assert (paced.is_open, paced.pause_s(NOW)) == (False, 0.5)


def test_a_broken_set_up_is_probed_every_few_seconds_until_a_call_is_served() -> None:
    breaker = after(Rejected("profile", 401, "invalid_api_key"))

    assert (breaker.is_away, breaker.pause_s(NOW)) == (True, SETUP_FAULT_PAUSE_S)
    fault = "rejected: status 401, code invalid_api_key"
    assert breaker.problem(NOW + 5) == ProfileProblem("rejected", fault, 5.0)
    breaker.report(ANSWERED, NOW, 1.0, is_probe=True)
    assert (breaker.is_open, breaker.problem(NOW)) == (False, None)


def test_one_403_may_be_of_one_request_and_two_in_a_row_are_not() -> None:
    assert not after(FORBIDDEN).is_open
    assert not after(FORBIDDEN, ANSWERED, FORBIDDEN).is_open
    assert after(FORBIDDEN, FORBIDDEN).pause_s(NOW) == 1.0
    assert after(AWAY, FORBIDDEN).setup_fault == "rejected: status 403, code None"


@pytest.mark.parametrize(
    "served",
    [
        ANSWERED,
        Refused("no", CallFacts()),
        Truncated(9, CallFacts()),
        NoAnswer(200, CallFacts()),
        Rejected("request", 400, None),
    ],
)
def test_only_a_probe_that_is_served_lets_others_through_again(served: Reply) -> None:
    breaker = after(AWAY)
    breaker.report(served, NOW, 1.0, is_probe=False)
    assert breaker.is_open, "it may have begun before"

    breaker.report(served, NOW, 1.0, is_probe=True)
    assert not breaker.is_open
    assert breaker.was_open_lately(NOW + LATELY_S - 1)
    assert not breaker.was_open_lately(NOW + LATELY_S)


def test_what_a_provider_does_is_named_while_it_goes_on() -> None:
    broken = after(Unavailable(None, ran=False))

    named = ProfileProblem("failing", "the provider answers with status 503", 1.0)
    assert after(AWAY).problem(NOW + 1) == named
    assert after(AWAY).problem(NOW + RECENTLY_S + 1) is None
    assert broken.problem(NOW) == ProfileProblem("failing", "the provider breaks connections", 0.0)
    assert after(BUSY).problem(NOW) is None


def test_calls_are_served_since_the_last_of_them_began() -> None:
    breaker = after(ANSWERED)
    breaker.report(ANSWERED, NOW, 50.0, is_probe=False)

    assert breaker.served_since == NOW - 2.0
    assert not breaker.was_open_lately(NOW), "it was never off"
