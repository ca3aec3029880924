"""A settings file that changes: taken whole, once it stands still, or not at all."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from answerbus.registry import Registry
from services.settings.reloadable import digest_of
from services.settings.settings import Settings, SetUpError
from services.worker.adapters.building import BackendContext
from services.worker.adapters.telemetry.metrics_observer import MetricsObserver
from services.worker.core.run.known_tools import KnownTools
from services.worker.settings_reload import (
    AGAIN_S,
    LOOK_EVERY_S,
    LiveSettings,
    SettingsMonitor,
)
from tests.unit.worker.lane.run_world import run_context
from tests.unit.worker.lane.virtual import VirtualClock, run
from tests.unit.worker.lane.world import FakeProvider

PROFILE = {"provider": "openai", "model": "m", "base_url": "http://127.0.0.1:1/v1"}
SHORT_S = LOOK_EVERY_S / 10


def settings(most: int = 10, prefix: str = "answerbus") -> Settings:
    profiles = {"default": PROFILE | {"max_in_flight": most}}
    return Settings.model_validate({"profiles": profiles, "kafka": {"topic_prefix": prefix}})


@dataclass
class FakeFile:
    """A settings file in memory."""

    says: Settings | SetUpError = field(default_factory=settings)
    state: tuple[int, ...] = (0,)
    reads: int = 0

    def load(self) -> Settings:
        self.reads += 1
        if isinstance(self.says, SetUpError):
            raise self.says
        return self.says

    def write(self, says: Settings | SetUpError) -> None:
        self.says, self.state = says, (self.state[0] + 1,)


class Watched:
    """A monitor of such a file, and what it has put into force."""

    def __init__(self) -> None:
        self.file, self.wanted = FakeFile(), asyncio.Event()
        self.taken: list[Settings] = []
        self.fault: Exception | None = None
        self.monitor = SettingsMonitor(self.file, self.file.load(), self._take, self.wanted)
        self.task = asyncio.create_task(self.monitor.run())

    @property
    def refused(self) -> str | None:
        return self.monitor.settings_state.refused

    async def _take(self, found: Settings) -> None:
        await asyncio.sleep(SHORT_S)
        if self.fault:
            raise self.fault
        self.taken.append(found)


def run_watched(reply: Callable[[Watched], Awaitable[None]]) -> None:
    async def main() -> None:
        watched = Watched()
        await asyncio.sleep(3 * LOOK_EVERY_S)
        assert watched.taken == []
        try:
            await reply(watched)
        finally:
            watched.task.cancel()

    run(main())


def test_a_file_that_has_changed_and_stands_still_is_taken() -> None:
    async def scenario(it: Watched) -> None:
        it.file.write(settings(20))
        await asyncio.sleep(3 * LOOK_EVERY_S)

        assert it.taken == [settings(20)]
        state = it.monitor.settings_state
        assert (state.digest, state.refused) == (digest_of(settings(20)), None)

    run_watched(scenario)


def test_a_file_that_is_written_to_is_not_read_meanwhile() -> None:
    async def scenario(it: Watched) -> None:
        for most in range(20, 30):
            it.file.write(settings(most))
            await asyncio.sleep(LOOK_EVERY_S)
        assert it.taken == []
        await asyncio.sleep(2 * LOOK_EVERY_S)

        assert it.taken == [settings(29)]

    run_watched(scenario)


def test_a_reload_signal_is_followed_at_once_though_the_file_seems_the_same() -> None:
    async def scenario(it: Watched) -> None:
        it.file.says = settings(20)
        it.wanted.set()
        await asyncio.sleep(2 * SHORT_S)

        assert it.taken == [settings(20)]

    run_watched(scenario)


@pytest.mark.parametrize(
    ("says", "why"),
    [
        (SetUpError("It is no TOML."), "It is no TOML."),
        (
            settings(20, prefix="acme"),
            (
                "`kafka.topic_prefix` cannot change while a worker runs, so that nothing of the "
                "file was taken: restart it, or put back what was there."
            ),
        ),
    ],
    ids=["unreadable", "fixed"],
)
def test_what_cannot_be_taken_changes_nothing_and_says_why(
    says: Settings | SetUpError, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(it: Watched) -> None:
        before = it.monitor.settings_state.digest
        it.file.write(says)
        await asyncio.sleep(3 * AGAIN_S)

        assert (it.taken, it.refused) == ([], why)
        assert it.monitor.settings_state.digest == before
        assert [record.message for record in caplog.records].count(
            f"settings file rejected, keeping current settings: {why}"
        ) == 1
        it.file.write(settings(20))
        await asyncio.sleep(3 * LOOK_EVERY_S)
        assert (it.taken, it.refused) == ([settings(20)], None)

    run_watched(scenario)


@pytest.mark.parametrize("fault", [SetUpError("No such key."), RuntimeError("secret")])
def test_what_was_refused_is_tried_again_by_itself(fault: Exception) -> None:
    """Such as a key that comes a moment after the file that names it."""

    async def scenario(it: Watched) -> None:
        it.fault = fault
        it.file.write(settings(20))
        await asyncio.sleep(3 * LOOK_EVERY_S)
        assert str(fault if isinstance(fault, SetUpError) else "RuntimeError") in str(it.refused)
        assert "secret" not in str(it.refused)
        it.fault = None
        await asyncio.sleep(AGAIN_S + LOOK_EVERY_S)

        assert (it.taken, it.refused) == ([settings(20)], None)

    run_watched(scenario)


def test_a_file_that_is_put_back_is_refused_no_more() -> None:
    async def scenario(it: Watched) -> None:
        it.file.write(SetUpError("It is no TOML."))
        await asyncio.sleep(3 * LOOK_EVERY_S)
        it.file.write(settings())
        await asyncio.sleep(3 * LOOK_EVERY_S)

        assert (it.taken, it.refused) == ([], None)

    run_watched(scenario)


def test_pins_that_contradict_each_other_leave_agents_and_profiles_as_they_were() -> None:
    """What was put back later was taken for what is in force, and was not."""

    async def scenario() -> None:
        context, before = run_context(FakeProvider()), settings()
        shared, tools = BackendContext(VirtualClock()), KnownTools()
        measures = MetricsObserver({"default"}, Registry())
        live = LiveSettings(before, lambda it: it, context, shared, measures, tools)
        planner, agents = context.planner, context.planner.agents
        backends = planner.backends
        one, other = ({"orders": f"sha256:{digit * 64}"} for digit in "12")
        named = {"instructions": "Help.", "tools": ["orders.get"]}
        after = before.model_dump(mode="json", exclude_unset=True) | {
            "agents": {"a": {**named, "pins": one}, "b": {**named, "pins": other}},
            "profiles": {"other": PROFILE},
        }

        with pytest.raises(SetUpError, match="to different digests"):
            await live.take(Settings.model_validate(after))
        assert (planner.agents, planner.backends, live.current) == (agents, backends, before)

    run(scenario())
