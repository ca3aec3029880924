"""`answerbus replay export` without a dead letter to write."""

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from services import cli
from services.commands.replay import files
from services.operators.dead_letters.index import DeadLetterIndex
from services.operators.dead_letters.prepare_replay import Rejection


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


def test_a_record_that_cannot_be_had_is_named_and_is_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = SimpleNamespace(id="requests-0-7.dead-letter", has_request=False)

    async def index(*_given: object, **_more: object) -> DeadLetterIndex:
        return DeadLetterIndex()

    async def deleted(*_given: object) -> AsyncIterator[tuple[SimpleNamespace, Rejection]]:
        yield row, Rejection("gone", "Kafka has deleted it")

    monkeypatch.setattr(files, "loaded_once", index)
    monkeypatch.setattr(files, "select", lambda *_given: [row])
    monkeypatch.setattr(files, "bodies", deleted)
    done = CliRunner().invoke(cli.application(), ["replay", "export", str(tmp_path)])

    assert done.stderr == "requests-0-7.dead-letter: Kafka has deleted it.\n"
    assert done.stdout.endswith("has an invalid record that can be written.\n")
