"""What a worker finds at start over real HTTP: what may pass is named, what cannot ends it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic import TypeAdapter

from infra.ports import free_ports
from services.settings.profiles import Profile
from services.settings.settings import SetUpError
from services.worker.adapters import backends
from services.worker.adapters.building import BackendContext
from services.worker.adapters.providers import http
from services.worker.adapters.providers.apis.connection import ExchangeLimits
from services.worker.health.profile_monitor import ProfileMonitor
from services.worker.health.verdict import profile_problems
from services.worker.planning.planner import Backend
from tests.providers.calls import StoppedClock
from tests.providers.misbehaving import Drip, Hang, Script, When, answer, misbehaving

BOUND_S = 45.0
LIMIT_S = 10.0
LISTED = answer({"object": "list", "data": [{"id": "m"}]})
SOON: Mapping[str, Script] = {
    "silent": [Hang()],
    "slow": [Drip(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", 0.2)],
    "no credit": answer({"error": {"code": "insufficient_quota"}}, 429),
}
CALLED_ALL_THE_SAME = {"500": answer({}, 500), "503": answer({}, 503), "429": answer({}, 429)}


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    wait_for(monkeypatch, 0.5)


def wait_for(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    limits = ExchangeLimits(preflight_timeout_s=seconds)
    monkeypatch.setattr(http.HttpProvider.__init__, "__defaults__", (limits,))


def profile(base_url: str | None, **table: Any) -> Profile:
    given = {"provider": "openai", "model": "m", "base_url": base_url, **table}
    made: Profile = TypeAdapter(Profile).validate_python(given)
    return made


def nowhere() -> str:
    (port,) = free_ports(1)
    return f"http://127.0.0.1:{port}/v1"


@asynccontextmanager
async def started(**profiles: Profile) -> AsyncIterator[tuple[dict[str, Backend], list[str]]]:
    found, reported = await backends.started(profiles, BackendContext(StoppedClock()))
    try:
        yield found, reported
    finally:
        await backends.close(found)


async def test_an_absent_server_starts_as_an_unhealthy_profile_beside_a_healthy_one() -> None:
    gone = nowhere()
    async with (
        misbehaving(LISTED) as server,
        started(here=profile(server.base_url), away=profile(gone)) as (found, reported),
    ):
        why = f"there is no server at {gone}: start it, or correct `base_url`"
        (away,) = profile_problems(found, BOUND_S).items()
        assert (away[0], away[1].text, away[1].kind) == ("away", why, "no_connection")
        assert reported == [f"Profile `away`: {why}"]


@pytest.mark.parametrize("name", SOON)
async def test_what_may_pass_by_itself_does_not_end_the_worker(name: str) -> None:
    async with (
        misbehaving(LISTED) as good,
        misbehaving(SOON[name]) as bad,
        started(here=profile(good.base_url), away=profile(bad.base_url)) as (found, reported),
    ):
        assert list(profile_problems(found, BOUND_S)) == ["away"]
        assert len(reported) == 1


@pytest.mark.parametrize("name", CALLED_ALL_THE_SAME)
async def test_a_listing_that_fails_says_nothing_of_calls(name: str) -> None:
    async with (
        misbehaving(CALLED_ALL_THE_SAME[name]) as server,
        started(default=profile(server.base_url)) as (found, reported),
    ):
        assert (profile_problems(found, BOUND_S), reported) == ({}, [])


async def test_all_that_can_never_work_is_named_at_once_and_what_may_pass_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A key that is missing or refused, another model, no native output, no address."""
    for variable in ("OPENAI_API_KEY", "MISSING"):
        monkeypatch.delenv(variable, raising=False)
    async with misbehaving(LISTED) as lists, misbehaving(answer({}, 401)) as refuses:
        profiles = {
            "well": profile(lists.base_url),
            "no-key": profile(None),
            "misspelt-key": profile(lists.base_url, api_key_env="MISSING"),
            "bad-key": profile(refuses.base_url),
            "no-address": profile("localhost:8080"),
            "broken-address": profile("http://["),
            "away": profile(nowhere()),
            "old": profile(None, provider="gemini", model="gemma-3", api_key_env=None),
        }
        monkeypatch.setenv("ANY", "k")
        profiles["old"] = profile(None, model="gpt-3.5-turbo", api_key_env="ANY")
        with pytest.raises(SetUpError) as raised:
            await backends.started(profiles, BackendContext(StoppedClock()))

    lines = str(raised.value).splitlines()
    named = [line.removeprefix("Profile `").partition("`")[0] for line in lines]
    assert sorted(named) == sorted(
        ["no-key", "misspelt-key", "bad-key", "no-address", "broken-address", "old"]
    )


async def test_profiles_are_checked_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is answered when all of them have asked; one after the other, seven would time out."""
    wait_for(monkeypatch, LIMIT_S)
    all_asked = asyncio.Event()
    async with misbehaving([When(all_asked), *LISTED]) as server, asyncio.TaskGroup() as tasks:
        profiles = {f"p-{n}": profile(server.base_url) for n in range(8)}
        start = tasks.create_task(backends.started(profiles, BackendContext(StoppedClock())))
        await server.requests(len(profiles))
        all_asked.set()
        found, _ = await start
        await backends.close(found)
        assert profile_problems(found, BOUND_S) == {}


async def test_a_server_that_comes_up_later_makes_the_profile_healthy_without_a_call() -> None:
    """And so does one that at first said something else."""
    async with (
        misbehaving([Hang()], LISTED) as server,
        started(default=profile(server.base_url)) as (found, _),
    ):
        assert profile_problems(found, BOUND_S)
        monitor = asyncio.create_task(ProfileMonitor(lambda: found, every_s=0.01).run())
        async with asyncio.timeout(LIMIT_S):
            while profile_problems(found, BOUND_S):
                await asyncio.sleep(0.01)
        monitor.cancel()


async def test_a_server_that_comes_up_without_the_model_is_named_and_ends_nothing() -> None:
    others, unknown = answer({"data": [{"id": "x"}]}), answer({}, 404)
    async with (
        misbehaving([Hang()], others, unknown) as server,
        started(default=profile(server.base_url)) as (found, _),
    ):
        monitor = asyncio.create_task(ProfileMonitor(lambda: found, every_s=0.01).run())
        expected = f"{server.base_url} has no model 'm': set `model` to x"
        async with asyncio.timeout(LIMIT_S):
            while [problem.text for problem in profile_problems(found, BOUND_S).values()] != [
                expected
            ]:
                await asyncio.sleep(0.01)
        monitor.cancel()
