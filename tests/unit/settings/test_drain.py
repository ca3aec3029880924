"""A worker that leaves waits for its longest call, unless it is told otherwise."""

from pathlib import Path

import pytest

from services.settings.settings import load
from services.worker.processes.supervisor import share

PROFILE = '[profiles.{}]\nprovider = "scripted"\nscript = "s.json"\ntimeout_s = {}\n'


@pytest.mark.parametrize(
    ("worker", "timeouts", "drain_s"),
    [
        ("", [60, 900], 900),
        ("", [5], 30),
        ("", [], 30),
        ("[worker]\ndrain_s = 10\n", [60, 900], 10),
        ("[worker]\ndrain_s = 1000\n", [60], 1000),
    ],
    ids=["longest", "short calls", "no profile", "shorter as told", "longer as told"],
)
def test_how_long_a_worker_drains(
    tmp_path: Path, worker: str, timeouts: list[int], drain_s: float
) -> None:
    file = tmp_path / "answerbus.toml"
    file.write_text(worker + "".join(PROFILE.format(f"p{n}", s) for n, s in enumerate(timeouts)))
    settings = load(file, {})

    assert settings.drain_s == drain_s
    assert settings.longest_call_s == max(timeouts, default=0)
    assert bool(settings.advice) == (drain_s < max(timeouts, default=0))
    assert share(settings, 1, 2).drain_s == drain_s
