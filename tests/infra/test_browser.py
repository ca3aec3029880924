"""The browser of the console's tests is installed once, also by several processes at once."""

import subprocess
from pathlib import Path
from typing import NoReturn

import pytest

from infra import browser

INSTALLED = Path("/usr/bin/chromium")


def test_one_that_another_process_installed_meanwhile_is_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = iter([None, INSTALLED])

    def run(*_: object, **__: object) -> NoReturn:
        raise AssertionError

    monkeypatch.delenv(browser.OWN, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(browser, "_found", lambda: next(found))
    monkeypatch.setattr(subprocess, "run", run)

    assert browser.chromium() == INSTALLED
