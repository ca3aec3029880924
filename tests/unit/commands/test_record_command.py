"""`answerbus record` without Kafka: what is wrong with its files is said before one is written."""

import resource
from pathlib import Path

import pytest
from typer.testing import CliRunner

from answerbus.cassette import REQUESTS_MAX, Cassette
from answerbus.topics import STEPS
from services import cli
from services.commands import record
from services.operators.runs.recording import Recording
from tests.unit.commands.test_play import recorded
from tests.unit.operators.runs.events import WORKFLOW, asked


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


def test_a_run_whose_steps_are_hidden_is_not_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = Recording(WORKFLOW)
    recording.take(asked("r-1", agent={"name": "support"}))

    async def recording_of(*_: object) -> Recording:
        return recording

    async def hidden_runs(_bus: object, topics: object) -> str:
        assert topics == (STEPS,)
        return "no right to Read"

    monkeypatch.setattr(record, "recording_of", recording_of)
    monkeypatch.setattr(record, "hidden_runs", hidden_runs)
    out = tmp_path / "cassette.json"
    command = ["record", "--workflow", WORKFLOW, "--out", str(out)]
    done = CliRunner().invoke(cli.application(), command)

    assert (done.exit_code, done.stderr) == (1, "no right to Read\n")
    assert not out.exists()


def test_what_makes_a_recording_too_large_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = Recording(WORKFLOW)
    for number in range(REQUESTS_MAX + 1):
        recording.take(asked(f"r-{number}"))

    async def recording_of(*_: object) -> Recording:
        return recording

    monkeypatch.setattr(record, "recording_of", recording_of)
    done = CliRunner().invoke(cli.application(), ["record", "--workflow", WORKFLOW])

    assert done.exit_code == 2
    said = " ".join(done.stderr.replace("│", "").split())
    assert "too large: at /requests, 1000 or fewer items." in said


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
