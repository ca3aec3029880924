"""Slots for calls, and a breaker that makes callers wait and never fails them."""

import asyncio

import pytest

from services.worker.core.attempt.reply import (
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
    PAUSE_MAX_S,
    PROVIDER_PAUSE_MAX_S,
    SETUP_FAULT_PAUSE_S,
)
from services.worker.limits.profile_limiter import ProfileLimiter
from services.worker.limits.slots import Reservation
from tests.unit.worker.builders import answered
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.limits.holding import calling, placed

FORBIDDEN = Rejected("profile", 403, None)


def now() -> float:
    return asyncio.get_running_loop().time()


async def pass_through(
    limiter: ProfileLimiter, reply: Reply | None = None, takes_s: float = 0.0, key: str = "w"
) -> float:
    """One call; gives the seconds it had to wait."""
    came = now()
    async with placed(limiter.slots, key) as place, calling(limiter.slots):
        waited_s = now() - came
        place.is_used = True
        await asyncio.sleep(takes_s)
        limiter.report(reply or answered(), takes_s, place)
    return waited_s


@on_virtual_time
async def test_no_more_pass_than_there_are_slots() -> None:
    limiter = ProfileLimiter(2)
    waits = await asyncio.gather(*(pass_through(limiter, takes_s=1.0) for _ in range(5)))

    assert waits == [0, 0, 1, 1, 2]


@pytest.mark.parametrize(
    ("replies", "pause_s"),
    [
        ([Throttled(10.0)], 10),
        ([Throttled(None)], 1),
        ([Throttled(1e9)], PROVIDER_PAUSE_MAX_S),
        ([Unavailable(None, ran=False)], 1),
        ([Rejected("profile", 401, "key")], SETUP_FAULT_PAUSE_S),
        ([FORBIDDEN], 0),  # maybe of one request alone
        ([FORBIDDEN, FORBIDDEN], 1),  # maybe of a few requests alone
        ([FORBIDDEN, answered(), FORBIDDEN], 0),
        ([Unavailable(500, ran=True)] * (FAILURES_BEFORE_OPEN - 1), 0),
        ([Unavailable(500, ran=True)] * FAILURES_BEFORE_OPEN, PAUSE_MAX_S),
        ([TimedOut(1.0)] * FAILURES_BEFORE_OPEN, PAUSE_MAX_S),
        (
            [TimedOut(1.0), TimedOut(1.0), answered(), TimedOut(1.0), TimedOut(1.0), TimedOut(1.0)],
            0,
        ),
        ([NoAnswer(200, CallFacts())] * FAILURES_BEFORE_OPEN, 0),  # another request may be served
        ([TimedOut(1.0)] * 4 + [Rejected("request", 400, None)] + [TimedOut(1.0)] * 4, 0),
        # What began before comes to something after: it proves nothing.
        ([Throttled(10.0), answered()], 10),
        ([Throttled(10.0), Refused("no", CallFacts())], 10),
        ([Throttled(10.0), Truncated(1, CallFacts())], 10),
        ([Throttled(10.0), NoAnswer(200, CallFacts())], 10),
        ([Throttled(10.0), Rejected("request", 400, None)], 10),
    ],
)
@on_virtual_time
async def test_the_pause_after(replies: list[Reply], pause_s: float) -> None:
    limiter = ProfileLimiter(100)
    for reply in replies:
        limiter.report(reply, 0.0, Reservation())

    assert await pass_through(limiter) == pause_s


@on_virtual_time
async def test_hundreds_of_calls_that_end_in_one_outage_are_one_failure() -> None:
    """The provider is asked again after a moment, not after the longest pause there is."""
    limiter = ProfileLimiter(500)
    reply = Unavailable(None, ran=False)
    calls = (pass_through(limiter, reply, takes_s=1.0, key=f"w-{n}") for n in range(500))
    await asyncio.gather(*calls)

    assert await pass_through(limiter) == 1


@on_virtual_time
async def test_pauses_grow_while_probes_fail_up_to_a_limit() -> None:
    limiter = ProfileLimiter(10)
    down = Unavailable(None, ran=False)
    waits = [await pass_through(limiter, down) for _ in range(10)]

    assert waits == [0, 1, 2, 4, 8, *[PAUSE_MAX_S] * 5]


@on_virtual_time
async def test_one_at_a_time_probes_who_was_away_and_all_pass_when_one_was_served() -> None:
    limiter, away = ProfileLimiter(10), Unavailable(None, ran=False)
    limiter.report(away, 0.0, Reservation())
    script = [away, None, None, None]
    waits = await asyncio.gather(*(pass_through(limiter, reply, 2.0) for reply in script))

    # The first probe fails after 2 s, which makes the pause 2 s; the second is served.
    assert waits == [1, 5, 7, 7]


@pytest.mark.parametrize(("refusal_s", "step_s"), [(0.0, 0.1), (0.2, 0.3), (60.0, 0.5)])
@on_virtual_time
async def test_who_had_too_much_is_asked_by_twice_as_many_once_probes_outlast_a_refusal(
    refusal_s: float, step_s: float
) -> None:
    limiter = ProfileLimiter(100)
    limiter.report(Throttled(10.0), refusal_s, Reservation())
    waits = await asyncio.gather(*(pass_through(limiter, None, 60.0) for _ in range(8)))

    steps = [0, 1, 2, 2, 3, 3, 3, 3]
    assert waits == [pytest.approx(10 + step * step_s, abs=0.01) for step in steps]


@on_virtual_time
async def test_a_refusal_on_the_way_ends_the_asking() -> None:
    limiter = ProfileLimiter(100)
    limiter.report(Throttled(10.0), 0.4, Reservation())
    script = [None, Throttled(10.0), *[None] * 3]
    waits = await asyncio.gather(*(pass_through(limiter, reply, 0.7) for reply in script))

    assert waits[:3] == [10, pytest.approx(10.5), pytest.approx(10.7)], (
        "one is served, then one is refused"
    )
    assert limiter.breaker.is_open


@on_virtual_time
async def test_who_asks_for_a_moment_is_given_it_and_no_more() -> None:
    limiter = ProfileLimiter(100)
    limiter.report(Throttled(0.2), 0.0, Reservation())
    waits = await asyncio.gather(*(pass_through(limiter, None, 60.0) for _ in range(5)))

    assert waits == [pytest.approx(0.2)] * 5


@pytest.mark.parametrize("moment_s", [0.5, 5.0])
@on_virtual_time
async def test_who_is_cancelled_while_waiting_leaves_slot_and_probe_to_others(
    moment_s: float,
) -> None:
    """The first waits for the pause to end, the others for the first, the last for a slot."""
    limiter = ProfileLimiter(3)
    limiter.report(Throttled(10.0), 0.0, Reservation())
    impatient = [asyncio.create_task(pass_through(limiter)) for _ in range(5)]
    await asyncio.sleep(moment_s)
    for task in impatient:
        task.cancel()
    await asyncio.wait(impatient)

    assert await asyncio.gather(*(pass_through(limiter) for _ in range(3))) == [10 - moment_s] * 3
    assert (limiter.slots.reserved, limiter.slots.calling, limiter._probing) == (0, 0, 0)


@on_virtual_time
async def test_a_deadline_while_waiting_gives_everything_back() -> None:
    limiter = ProfileLimiter(1)
    limiter.report(Throttled(10.0), 0.0, Reservation())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3):
            await pass_through(limiter)

    assert await pass_through(limiter) == 7


@on_virtual_time
async def test_a_probe_that_fails_its_caller_lets_the_next_one_probe() -> None:
    limiter = ProfileLimiter(2)
    limiter.report(Throttled(1.0), 0.0, Reservation())
    with pytest.raises(RuntimeError):
        async with placed(limiter.slots):
            raise RuntimeError
    assert await pass_through(limiter) == 0


@on_virtual_time
async def test_an_unhealthy_profile_says_so_until_it_is_served() -> None:
    limiter = ProfileLimiter(2)
    limiter.report(Rejected("profile", 401, "invalid_api_key"), 0.0, Reservation())
    assert limiter.setup_fault == "rejected: status 401, code invalid_api_key"

    await pass_through(limiter)
    assert limiter.setup_fault is None


@on_virtual_time
async def test_a_place_that_was_given_out_before_the_breaker_went_off_is_no_leave_to_call() -> None:
    limiter = ProfileLimiter(2)
    async with placed(limiter.slots) as place:
        assert limiter.allows(place)
        limiter.report(Throttled(10.0), 0.0, Reservation())
        assert not limiter.allows(place)
    async with placed(limiter.slots) as probe:
        assert now() == 1010
        assert limiter.allows(probe)


@on_virtual_time
async def test_requests_per_minute_are_paced() -> None:
    limiter = ProfileLimiter(100, requests_per_minute=120)
    waits = await asyncio.gather(*(pass_through(limiter) for _ in range(6)))

    assert waits[:3] == [0, 0, 0]
    assert waits[3:] == [pytest.approx(60 / 117 * n) for n in (1, 2, 3)]


@on_virtual_time
async def test_tokens_per_minute_are_taken_at_their_worst_and_what_was_not_used_is_put_back() -> (
    None
):
    limiter = ProfileLimiter(100, tokens_per_minute=6_000)
    for _ in range(20):  # each of 150 at worst and 15 in fact: twice the bucket in all
        async with placed(limiter.slots, "w", 150) as place:
            place.is_used = True
            limiter.report(answered(), 0.0, place)
    assert now() == pytest.approx(1003, abs=0.5)

    began = now()
    async with placed(limiter.slots, "w", 6_000) as place:
        place.is_used = True
    async with placed(limiter.slots, "w", 300):
        assert now() - began == pytest.approx(6_300 / 95, abs=5)


@on_virtual_time
async def test_who_left_without_calling_has_used_nothing_of_the_minute() -> None:
    limiter = ProfileLimiter(100, requests_per_minute=60, tokens_per_minute=6_000)
    began = now()
    for _ in range(100):
        async with placed(limiter.slots, "w", 300):
            pass
    assert now() == began


@pytest.mark.parametrize(
    "reply",
    [Throttled(1.0), Unavailable(None, ran=False), Rejected("request", 400, None)],
)
@on_virtual_time
async def test_a_call_that_no_model_has_worked_on_has_used_no_tokens_of_the_minute(
    reply: Reply,
) -> None:
    limiter = ProfileLimiter(100, tokens_per_minute=6_000)
    async with placed(limiter.slots, "w", 6_000) as place:
        place.is_used = True
        limiter.report(reply, 0.0, place)
    began = now()
    async with placed(limiter.slots, "w", 6_000):
        assert now() - began <= 1.0  # the pause alone


@on_virtual_time
async def test_a_provider_that_throttles_is_asked_less_at_once_and_then_more_again() -> None:
    limiter = ProfileLimiter(10)
    limiter.report(Throttled(0.0), 0.0, Reservation(is_probe=True))
    assert limiter.slots.limit == 7
    for _ in range(100):
        limiter.report(answered(), 1.0, Reservation(is_probe=True))
    assert limiter.slots.limit == 10


@pytest.mark.wide
@on_virtual_time
async def test_a_workflow_with_thousands_of_requests_lets_others_through() -> None:
    limiter, order = ProfileLimiter(1), []

    async def one(key: str) -> None:
        async with placed(limiter.slots, key), calling(limiter.slots):
            order.append(key)
            await asyncio.sleep(1)

    crowd = [asyncio.create_task(one("crowd")) for _ in range(1_000)]
    await asyncio.sleep(0.5)
    other = asyncio.create_task(one("other"))
    await other
    for task in crowd:
        task.cancel()
    await asyncio.wait(crowd)

    assert "other" in order[:3]


@pytest.mark.parametrize(
    "reply", [Refused("no", CallFacts()), Truncated(1, CallFacts()), Rejected("request", 400, None)]
)
@on_virtual_time
async def test_a_probe_that_is_not_answered_but_served_lets_others_through(reply: Reply) -> None:
    limiter = ProfileLimiter(2)
    limiter.report(Throttled(1.0), 0.0, Reservation())
    assert await pass_through(limiter, reply) == 1
    assert await pass_through(limiter) == 0


@on_virtual_time
async def test_answers_of_calls_that_began_before_a_refusal_do_not_raise_the_limit() -> None:
    limiter, calls = ProfileLimiter(100), []

    async def one(number: int) -> None:
        async with placed(limiter.slots, f"w-{number}") as place, calling(limiter.slots):
            began = now()
            calls.append(began)
            await asyncio.sleep(0.1 + number % 10 / 10)
            refused = 1000.5 <= began < 1010.5
            limiter.report(Throttled(10.0) if refused else answered(), 1.0, place)

    await asyncio.gather(*(one(number) for number in range(1_000)))
    assert sum(1 for began in calls if 1000.5 <= began < 1010.5) <= 100


@on_virtual_time
async def test_a_profile_is_throttled_while_its_rate_or_its_provider_holds_calls_back() -> None:
    """Not while all slots are taken: those of another worker would help."""
    full, paced, refused = ProfileLimiter(1), ProfileLimiter(100, 60), ProfileLimiter(4)
    async with placed(full.slots), calling(full.slots):
        waiting = asyncio.create_task(pass_through(full))
        await asyncio.sleep(0)
        assert not full.is_throttled
    await waiting

    crowd = [asyncio.create_task(pass_through(paced)) for _ in range(200)]
    await asyncio.sleep(1)
    assert paced.is_throttled
    await asyncio.gather(*crowd)
    assert not paced.is_throttled

    refused.report(Throttled(10.0), 0.0, Reservation())
    assert refused.is_throttled
