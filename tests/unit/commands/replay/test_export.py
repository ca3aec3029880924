"""`answerbus replay export` without a dead letter to write."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from services import cli
from services.commands.replay import files
from services.operators.dead_letters.index import DeadLetterIndex


@pytest.mark.parametrize(("options", "expected"), [((), "No file: "), (("--json",), "[]\n")])
def test_without_a_file_there_is_nothing_to_repair(
    options: tuple[str, ...], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def none_found(*_given: object, **_more: object) -> DeadLetterIndex:
        return DeadLetterIndex()

    monkeypatch.setattr(files, "loaded_once", none_found)
    done = CliRunner().invoke(cli.application(), ["replay", "export", str(tmp_path), *options])

    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(expected)
    assert "Repair" not in done.stdout
