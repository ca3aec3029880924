"""One demo at a time runs in a checkout."""

import fcntl
import signal
from pathlib import Path

import pytest

from infra.demo import __main__ as demo


def test_a_demo_beside_another_says_why_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    lock = demo.FOLDER.with_suffix(".lock")
    lock.parent.mkdir()
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)

        assert demo.main() == 1
    assert capsys.readouterr().out == "Another demo runs in this checkout: let it end first.\n"
