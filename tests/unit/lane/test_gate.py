"""Slots for calls, and a breaker that makes callers wait and never fails them."""

import asyncio

import pytest

from services.worker.core.reply import (
    CallFacts,
    Refused,
    Rejected,
    Reply,
    Throttled,
    TimedOut,
    Truncated,
    Unavailable,
)
from services.worker.providers.gate import (
    FAILURES_BEFORE_OPEN,
    PAUSE_MAX_S,
    PAUSE_TOLD_MAX_S,
    SICK_PAUSE_S,
    Gate,
)
from tests.unit.builders import answered
from tests.unit.lane.virtual import run


def now() -> float:
    return asyncio.get_running_loop().time()


async def pass_through(gate: Gate, reply: Reply | None = None, takes_s: float = 0.0) -> float:
    """One call; gives the seconds it had to wait."""
    came = now()
    async with gate.slot():
        waited_s = now() - came
        await asyncio.sleep(takes_s)
        gate.report(reply or answered())
    return waited_s


def test_no_more_pass_than_there_are_slots() -> None:
    async def main() -> None:
        gate = Gate(2)
        waits = await asyncio.gather(*(pass_through(gate, takes_s=1.0) for _ in range(5)))

        assert waits == [0, 0, 1, 1, 2]

    run(main())


@pytest.mark.parametrize(
    ("replies", "pause_s"),
    [
        ([Throttled(10.0)], 10),
        ([Throttled(None)], 1),
        ([Throttled(1e9)], PAUSE_TOLD_MAX_S),
        ([Unavailable(None, ran=False)], 1),
        ([Rejected("profile", 401, "key")], SICK_PAUSE_S),
        ([Unavailable(500, ran=True)] * (FAILURES_BEFORE_OPEN - 1), 0),
        ([Unavailable(500, ran=True)] * FAILURES_BEFORE_OPEN, 16),
        ([TimedOut(1.0)] * FAILURES_BEFORE_OPEN, 16),
        (
            [TimedOut(1.0), TimedOut(1.0), answered(), TimedOut(1.0), TimedOut(1.0), TimedOut(1.0)],
            0,
        ),
        ([TimedOut(1.0)] * 4 + [Rejected("request", 400, None)] + [TimedOut(1.0)] * 4, 0),
        ([Throttled(10.0), Refused("no", CallFacts())], 0),
        ([Throttled(10.0), Truncated(1, CallFacts())], 0),
    ],
)
def test_the_pause_after(replies: list[Reply], pause_s: float) -> None:
    async def main() -> None:
        gate = Gate(100)
        for reply in replies:
            gate.report(reply)

        assert await pass_through(gate) == pause_s

    run(main())


def test_hundreds_of_calls_that_end_in_one_outage_are_one_failure() -> None:
    """The provider is asked again after a moment, not after the longest pause there is."""

    async def main() -> None:
        gate = Gate(500)
        replies = [Unavailable(None, ran=False)] * 500
        await asyncio.gather(*(pass_through(gate, reply, takes_s=1.0) for reply in replies))

        assert await pass_through(gate) == 1

    run(main())


def test_pauses_grow_while_probes_fail_up_to_a_limit() -> None:
    async def main() -> None:
        gate = Gate(10)
        down = Unavailable(None, ran=False)
        waits = [await pass_through(gate, down) for _ in range(10)]

        assert waits == [0, 1, 2, 4, 8, 16, 32, PAUSE_MAX_S, PAUSE_MAX_S, PAUSE_MAX_S]

    run(main())


def test_one_at_a_time_probes_and_all_pass_when_one_was_served() -> None:
    async def main() -> None:
        gate = Gate(10)
        gate.report(Throttled(10.0))
        script = [Throttled(5.0), None, None, None]
        waits = await asyncio.gather(*(pass_through(gate, reply, 2.0) for reply in script))

        # The first probe takes 2 s and is told 5; the second takes 2 s and is served.
        assert waits == [10, 17, 19, 19]

    run(main())


@pytest.mark.parametrize("moment_s", [0.5, 5.0])
def test_who_is_cancelled_while_waiting_leaves_slot_and_probe_to_others(moment_s: float) -> None:
    """The first waits for the pause to end, the others for the first, the last for a slot."""

    async def main() -> None:
        gate = Gate(3)
        gate.report(Throttled(10.0))
        impatient = [asyncio.create_task(pass_through(gate)) for _ in range(5)]
        await asyncio.sleep(moment_s)
        for task in impatient:
            task.cancel()
        await asyncio.wait(impatient)

        assert await asyncio.gather(*(pass_through(gate) for _ in range(3))) == [10 - moment_s] * 3
        assert (gate._slots._value, gate._probe.locked()) == (3, False)

    run(main())


def test_a_deadline_while_waiting_gives_everything_back() -> None:
    async def main() -> None:
        gate = Gate(1)
        gate.report(Throttled(10.0))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await pass_through(gate)

        assert await pass_through(gate) == 7

    run(main())


def test_a_probe_that_fails_its_caller_lets_the_next_one_probe() -> None:
    async def main() -> None:
        gate = Gate(2)
        gate.report(Throttled(1.0))
        with pytest.raises(RuntimeError):
            async with gate.slot():
                raise RuntimeError
        assert await pass_through(gate) == 0

    run(main())


def test_a_sick_profile_says_so_until_it_is_served() -> None:
    async def main() -> None:
        gate = Gate(2)
        gate.report(Rejected("profile", 401, "invalid_api_key"))
        assert gate.sick == "rejected: status 401, code invalid_api_key"

        await pass_through(gate)
        assert gate.sick is None

    run(main())
