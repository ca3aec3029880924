"""A process that ends is started again, with the settings that the others have by now."""

import os
import signal
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from services.settings.settings import Settings, SettingsFile
from services.worker.processes import supervisor
from services.worker.processes.supervisor import EXIT_SET_UP, Processes

PROFILE = '[profiles.{}]\nprovider = "scripted"\nscript = "s.json"\n'
RUNS_ON = None

Handlers = dict[int, Callable[..., None]]


class Played:
    """Processes that end at once with the codes of a script, or run until they are to leave."""

    def __init__(self, file: Path, codes: dict[int, list[int | None]], then: str) -> None:
        self.file, self.codes, self.then = file, codes, then
        self.started: dict[int, list[Settings]] = defaultdict(list)
        self.handlers: Handlers = {}

    def process(self, target: object, args: tuple[Any, ...], name: str) -> "PlayedProcess":
        settings, part = args[0], args[3]
        return PlayedProcess(self, settings, part.number)


class PlayedProcess:
    pid = None

    def __init__(self, played: Played, settings: Settings, number: int) -> None:
        self._played, self._settings, self._number = played, settings, number
        self.exitcode: int | None = None
        self.sentinel, self._other_end = os.pipe()

    def start(self) -> None:
        played, codes = self._played, self._played.codes[self._number]
        played.started[self._number].append(self._settings)
        played.file.write_text(played.then)
        self.exitcode = codes.pop(0)
        if not any(played.codes.values()):
            played.handlers[signal.SIGTERM]()

    def terminate(self) -> None:
        self.exitcode = 0 if self.exitcode is None else self.exitcode


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., tuple[int, Played]]:
    """Run two processes with these codes while the settings file changes."""

    def run(codes: dict[int, list[int | None]], then: str) -> tuple[int, Played]:
        file = tmp_path / "answerbus.toml"
        file.write_text(PROFILE.format("default"))
        played = Played(file, codes, then)
        monkeypatch.setattr(supervisor, "RESTART_FIRST_S", 0.0)
        monkeypatch.setattr(supervisor, "LOOK_EVERY_S", 0.01)
        monkeypatch.setattr(signal, "signal", played.handlers.__setitem__)
        context = SimpleNamespace(Value=lambda *_: None, Process=played.process)
        monkeypatch.setattr(supervisor, "_CONTEXT", context)
        settings = SettingsFile(file)
        return Processes(settings.load(), settings, "info", 2).run(), played

    return run


def test_a_process_that_died_is_started_with_the_settings_that_its_siblings_took(
    play: Callable[..., tuple[int, Played]],
) -> None:
    both = PROFILE.format("default") + PROFILE.format("added")
    code, played = play({0: [RUNS_ON], 1: [-signal.SIGKILL, RUNS_ON]}, both)

    assert code == 0
    assert [[*settings.profiles] for settings in played.started[1]] == [
        ["default"],
        ["default", "added"],
    ]


@pytest.mark.parametrize(
    "then", ["[", PROFILE.format("other") + '[kafka]\ntopic_prefix = "other"\n'], ids=str
)
def test_a_file_that_siblings_cannot_take_is_not_taken_by_its_successor(
    play: Callable[..., tuple[int, Played]], then: str
) -> None:
    _, played = play({0: [RUNS_ON], 1: [-signal.SIGKILL, RUNS_ON]}, then)

    assert [[*settings.profiles] for settings in played.started[1]] == [["default"], ["default"]]


def test_a_successor_that_cannot_start_does_not_end_those_that_work(
    play: Callable[..., tuple[int, Played]],
) -> None:
    codes: dict[int, list[int | None]] = {
        0: [RUNS_ON],
        1: [-signal.SIGKILL, EXIT_SET_UP, EXIT_SET_UP, RUNS_ON],
    }
    code, played = play(codes, PROFILE.format("default"))

    assert (code, len(played.started[1])) == (0, 4)


def test_a_set_up_that_cannot_work_ends_all_at_the_start(
    play: Callable[..., tuple[int, Played]],
) -> None:
    codes: dict[int, list[int | None]] = {0: [RUNS_ON], 1: [EXIT_SET_UP, RUNS_ON]}

    assert play(codes, "")[0] == EXIT_SET_UP
