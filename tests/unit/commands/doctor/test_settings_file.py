"""Which settings the doctor says that it looks at."""

from pathlib import Path

import pytest

from services.commands.doctor.examine import examined
from services.settings.settings import FILE_DEFAULT, FILE_OF_TRIAL


async def settings_line(config: Path | None = None) -> str:
    async for finding in examined(config):
        if finding.about == "settings":
            return finding.said
    raise AssertionError("it has no line about settings")


def write_profile(file: Path) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text('[profiles.default]\nprovider = "scripted"\nscript = "script.json"\n')


@pytest.mark.parametrize("file", [FILE_DEFAULT, FILE_OF_TRIAL])
async def test_the_file_that_was_read_is_named(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_profile(file)

    assert await settings_line() == f"from {file} and variables, 1 profile"


async def test_without_a_file_the_variables_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert await settings_line() == f"from variables alone, no {FILE_DEFAULT}, 0 profiles"
