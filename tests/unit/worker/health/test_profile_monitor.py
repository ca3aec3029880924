"""One server that takes no connection, and what is found out about the others at once."""

import asyncio
from dataclasses import dataclass

from services.worker.core.attempt.plan import ProfileFacts
from services.worker.core.attempt.reply import Unavailable
from services.worker.core.limits.reachability import Reachability
from services.worker.health.profile_monitor import ProfileMonitor
from services.worker.health.verdict import profile_problems
from services.worker.limits.profile_limiter import ProfileLimiter
from services.worker.limits.slots import Reservation
from services.worker.planning.planner import Backend
from services.worker.ports.provider import Readiness, Ready, Unhealthy
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.lane.world import FakeProvider

HERE, GONE = Ready(), Unhealthy("there is no server", connected=False)
REFUSED = Unavailable(None, ran=False)
BOUND_S = 45.0


@dataclass
class Checked(FakeProvider):
    """Says what a check finds, after some seconds, and counts the checks."""

    finds: Readiness = HERE
    takes_s: float = 0.0
    checks: int = 0

    async def preflight(self) -> Readiness:
        self.checks += 1
        await asyncio.sleep(self.takes_s)
        return self.finds


def backends(**providers: Checked) -> dict[str, Backend]:
    """Each at a server of its own."""
    return {
        name: Backend(
            ProfileFacts(name, "fake", "m", 100, 60.0, None),
            "prompted",
            provider,
            ProfileLimiter(10, server=Reachability(f"https://{name}.example")),
        )
        for name, provider in providers.items()
    }


def unhealthy(found: dict[str, Backend]) -> set[str]:
    return set(profile_problems(found, BOUND_S))


@on_virtual_time
async def test_all_servers_that_went_away_together_are_named_within_seconds_of_one_refusal() -> (
    None
):
    """A slow one keeps no other waiting, and one that is well stays so."""
    gone = {name: Checked(finds=GONE) for name in ("claude", "gemini", "openai", "small")}
    found = backends(default=Checked(), well=Checked(), slow=Checked(takes_s=9.0), **gone)
    monitor = asyncio.create_task(ProfileMonitor(lambda: found).run())
    await asyncio.sleep(60.0)
    assert unhealthy(found) == set()

    found["default"].limiter.report(REFUSED, 0.0, Reservation())
    assert unhealthy(found) == {"default"}
    await asyncio.sleep(1.0)

    problems = profile_problems(found, BOUND_S)
    assert set(problems) == {"default", *gone}
    assert {problem.kind for problem in problems.values()} == {"no_connection"}
    assert all((problem.lasts_s or 0.0) <= 1.0 for problem in problems.values())
    await stop(monitor)


@on_virtual_time
async def test_those_away_are_asked_again_and_the_others_are_left_alone() -> None:
    away, well = Checked(finds=GONE), Checked()
    found = backends(away=away, well=well)
    monitor = asyncio.create_task(ProfileMonitor(lambda: found).run())
    found["away"].limiter.report(REFUSED, 0.0, Reservation())
    await asyncio.sleep(60.0)
    assert 9 <= away.checks <= 12
    assert well.checks == 1

    away.finds = Ready()
    await asyncio.sleep(6.0)
    assert unhealthy(found) == set()
    await stop(monitor)


@on_virtual_time
async def test_a_check_that_takes_long_is_not_begun_again_meanwhile() -> None:
    slow = Checked(finds=GONE, takes_s=20.0)
    found = backends(slow=slow)
    monitor = asyncio.create_task(ProfileMonitor(lambda: found).run())
    found["slow"].limiter.report(REFUSED, 0.0, Reservation())
    await asyncio.sleep(24.0)

    assert slow.checks == 1
    await stop(monitor)


async def stop(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait([task])


@on_virtual_time
async def test_a_provider_whose_check_raises_is_checked_again_and_so_are_the_others() -> None:
    class Raising(Checked):
        async def preflight(self) -> Readiness:
            await super().preflight()
            raise KeyError("a plugin's mistake")

    wrong, gone = Raising(), Checked(finds=GONE)
    found = backends(wrong=wrong, gone=gone)
    for one in found.values():
        one.limiter.checked(GONE)
    monitor = asyncio.create_task(ProfileMonitor(lambda: found).run())
    await asyncio.sleep(60)
    assert wrong.checks > 2
    assert gone.checks > 2
    monitor.cancel()
    await asyncio.wait([monitor])
