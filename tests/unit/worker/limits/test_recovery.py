"""How soon calls are in flight again after a provider refused them, and what that costs."""

import asyncio
import random
from collections.abc import Callable

import pytest

from services.worker.core.attempt.reply import Reply, Throttled
from services.worker.limits.profile_limiter import ProfileLimiter
from tests.unit.worker.builders import answered
from tests.unit.worker.lane.virtual import run
from tests.unit.worker.limits.holding import calling, placed

SLOTS, TASKS = 100, 300
SPEND_S = 0.03  # until a spend is committed
AGAIN_S = 0.001
STEADY_S, ENDS_S = 5.0, 60.0  # when the provider begins to refuse, and when the trial ends


def seconds() -> float:
    return asyncio.get_running_loop().time() - 1000.0


class Provider:
    """Takes log-normal times, and refuses in `refusal_s` while `refuses` says so."""

    def __init__(
        self, refuses: Callable[[float, int], bool], pause_s: float | None, refusal_s: float
    ) -> None:
        self.in_flight = self.refused = self.served = 0
        self.most: list[tuple[float, int]] = []
        self._refuses, self._pause_s, self._refusal_s = refuses, pause_s, refusal_s
        self._chance = random.Random(1)

    async def ask(self) -> Reply:
        if self._refuses(seconds(), self.in_flight):
            self.refused += 1
            await asyncio.sleep(self._refusal_s)
            return Throttled(self._pause_s)
        self.in_flight += 1
        self.most.append((seconds(), self.in_flight))
        await asyncio.sleep(min(self._chance.lognormvariate(0.0, 0.8), 20.0))
        self.in_flight -= 1
        self.served += 1
        return answered()

    def back_s(self, since_s: float) -> float:
        """How long after that nine of ten calls are in flight."""
        full = (at for at, calls in self.most if at >= since_s and calls >= 0.9 * SLOTS)
        return next(full) - since_s


async def one_after_another(limiter: ProfileLimiter, provider: Provider, key: str) -> None:
    while seconds() < ENDS_S:
        pause_s = AGAIN_S
        async with placed(limiter.slots, key) as place:
            await asyncio.sleep(SPEND_S)
            async with calling(limiter.slots, SPEND_S):
                if limiter.allows(place):
                    place.is_used, began = True, seconds()
                    reply = await provider.ask()
                    limiter.report(reply, seconds() - began, place)
                    if isinstance(reply, Throttled):
                        pause_s = reply.retry_after_s or 1.0
        await asyncio.sleep(pause_s)


def play(provider: Provider, workers: int) -> None:
    async def main() -> None:
        limiters = [ProfileLimiter(SLOTS // workers) for _ in range(workers)]
        tasks = (one_after_another(limiters[n % workers], provider, f"w-{n}") for n in range(TASKS))
        await asyncio.gather(*tasks)

    run(main())


@pytest.mark.wide
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("refuses_s", "pause_s", "probed_after_s"),
    [
        (10.0, 10.0, 10.0),  # as long as it says
        (25.0, 10.0, 30.0),  # longer: its probes are refused, too
        (10.0, None, 15.0),  # without a word: probed after 1, 2, 4 and 8 s
    ],
)
def test_after_refusals_nine_of_ten_calls_are_in_flight_within_a_second(
    workers: int, refuses_s: float, pause_s: float | None, probed_after_s: float
) -> None:
    ends = STEADY_S + refuses_s
    provider = Provider(lambda at, _: STEADY_S <= at < ends, pause_s, refusal_s=0.05)

    play(provider, workers)

    assert provider.back_s(since_s=STEADY_S + probed_after_s) < 1.0
    assert provider.refused <= SLOTS / 4


def test_a_provider_that_takes_half_of_the_calls_is_asked_for_half() -> None:
    provider = Provider(lambda _, calls: calls >= SLOTS / 2, pause_s=1.0, refusal_s=0.05)

    play(provider, workers=1)

    possible = SLOTS / 2 * ENDS_S / 1.37  # the mean of a call
    assert provider.served > 0.75 * possible
    assert provider.refused < 0.1 * provider.served
