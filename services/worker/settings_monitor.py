"""Watches the settings file: applies changes while the worker runs, or says why not."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from services.settings.reloadable import digest_of, fixed_differences
from services.settings.settings import Settings, SetUpError
from services.worker.health.watched import SettingsState

LOOK_EVERY_S = 1.0
AGAIN_S = 15.0  # what was refused may be right by now: a key that is there, a server that answers

_log = logging.getLogger(__name__)


class ReadSettings(Protocol):
    """Where settings come from."""

    @property
    def state(self) -> tuple[int, ...]:
        """What changes with them."""
        ...

    def read(self) -> Settings:
        """What they are now. Raises SetUpError."""
        ...


@dataclass(frozen=True, slots=True)
class FixedSettings:
    """Settings that come from no file: see ReadSettings."""

    settings: Settings
    state: tuple[int, ...] = ()

    def read(self) -> Settings:
        """The same each time."""
        return self.settings


class SettingsMonitor:
    """All or nothing: what cannot be taken whole leaves the settings as they were.

    A file is read when two looks have found the same new state of it, so that one that is still
    written to is not; while `wanted` is set it is read at once. `take` puts settings into force,
    or raises SetUpError and has changed nothing.
    """

    def __init__(
        self,
        file: ReadSettings,
        current: Settings,
        take: Callable[[Settings], Awaitable[None]],
        look_now: asyncio.Event,
        every_s: float = LOOK_EVERY_S,
    ) -> None:
        self.settings_state = SettingsState(digest_of(current))
        self._file, self._current, self._take = file, current, take
        self._every_s = every_s
        self._read: tuple[int, ...] | None = None  # the state that was read last
        self._seen: tuple[int, ...] | None = None
        self._again_at = float("inf")
        self._wanted = look_now

    async def run(self) -> None:
        """Look for ever."""
        loop = asyncio.get_running_loop()
        while True:
            found, is_wanted = self._file.state, self._wanted.is_set()
            has_changed = found == self._seen != self._read
            self._seen = found
            if is_wanted or has_changed or loop.time() >= self._again_at:
                self._wanted.clear()
                self._read = found
                await self._look()
                again_s = AGAIN_S if self.settings_state.refused else float("inf")
                self._again_at = loop.time() + again_s
            try:
                async with asyncio.timeout(self._every_s):
                    await self._wanted.wait()
            except TimeoutError:
                pass

    async def _look(self) -> None:
        state = self.settings_state
        try:
            await self._change(self._file.read())
        except SetUpError as error:
            if state.refused != str(error):
                _log.error("the settings file is not taken, those before hold: %s", error)
            state.refused = str(error)
        except Exception as error:
            _log.exception("the settings file is not taken, those before hold")
            state.refused = f"a bug: {type(error).__name__}, see the log"
        else:
            state.refused = None

    async def _change(self, found: Settings) -> None:
        if found == self._current:
            return
        if names := fixed_differences(self._current, found):
            listed = ", ".join(f"`{name}`" for name in names)
            raise SetUpError(
                f"{listed} cannot change while a worker runs, so that nothing of the file was "
                "taken: restart it, or put back what was there."
            )
        await self._take(found)
        self._current = found
        self.settings_state.digest = digest_of(found)
        _log.info("other settings are in force: %s", self.settings_state.digest)
