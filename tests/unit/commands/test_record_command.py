"""`answerbus record` without Kafka: what is wrong with its files is said before one is written."""

import resource
from pathlib import Path

import pytest
from typer.testing import CliRunner

from answerbus.cassette import Cassette
from services import cli
from services.commands import record
from tests.unit.commands.test_play import recorded


@pytest.mark.parametrize("test", ["there.py", "cassette.json", "elsewhere/test_new.py"])
def test_nothing_is_written_where_the_test_cannot_be(
    test: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def found(*_given: object) -> tuple[object, Cassette]:
        return record._Wanted("w-0"), Cassette(workflow_id="w-0", requests=(recorded(),))

    monkeypatch.setattr(record, "_recorded", found)
    (tmp_path / "there.py").write_text("")
    out = tmp_path / "cassette.json"
    files = ["--out", str(out), "--test", str(tmp_path / test)]
    done = CliRunner().invoke(cli.application(), ["record", "--workflow", "w-0", *files])

    assert done.exit_code == 2, done.output
    assert "--test: a new file" in done.stderr
    assert not out.exists()


def test_of_a_file_that_does_not_fit_no_part_is_left(tmp_path: Path) -> None:
    out = tmp_path / "cassette.json"
    _, hard = limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            record._write_new(out, "x" * 2_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert not out.exists()
