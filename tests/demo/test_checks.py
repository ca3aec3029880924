"""`make test` ends with the sum over all of its runs, and stops at the first check that fails."""

import sys
from pathlib import Path

import pytest

from infra.checks import __main__ as checks

_REPORT = '<testsuites><testsuite tests="{}" failures="{}" errors="0" skipped="{}"/></testsuites>'


LIMIT_S = 60


def step(report: str, tests: int, failures: int = 0, skipped: int = 0) -> tuple[str, ...]:
    text = _REPORT.format(tests, failures, skipped)
    writes = f"open('.run/checks/{report}.xml', 'w').write('{text}'); raise SystemExit({failures})"
    return (sys.executable, "-c", writes)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def last_line(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out.splitlines()[-1].partition(" in ")[0]


def test_the_last_line_is_the_sum(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = {
        "one": step("one", 5, skipped=1),
        "none": (sys.executable, "-V"),
        "two": step("two", 7),
    }
    monkeypatch.setattr(checks, "STEPS", steps)

    assert checks.main([]) == 0
    assert last_line(capsys) == "===== 11 passed, 1 skipped"


def test_nothing_runs_after_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = {"one": step("one", 5, failures=2), "two": step("two", 7)}
    monkeypatch.setattr(checks, "STEPS", steps)

    assert checks.main([]) == 1
    assert last_line(capsys) == "===== 2 failed, 3 passed"
    assert not Path(".run/checks/two.xml").exists()


def steps_beside(monkeypatch: pytest.MonkeyPatch, beside: str, after: str) -> None:
    """`wide` runs the code of one, and `integration` that of the other."""
    waiting = f"""
import pathlib, time
ends_at = time.monotonic() + {LIMIT_S}
while not pathlib.Path("seen").exists() and time.monotonic() < ends_at:
    time.sleep(0.01)
"""
    steps = {
        "wide": (sys.executable, "-c", waiting + beside),
        "integration": (sys.executable, "-c", after),
    }
    monkeypatch.setattr(checks, "STEPS", steps)


SEEN = "open('seen', 'w').close()"


def test_a_step_runs_beside_those_after_it_and_what_it_printed_comes_last(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    steps_beside(monkeypatch, beside="print('words', 'of wide')", after=SEEN)

    assert checks.main([]) == 0
    out = capsys.readouterr().out
    assert out.index("integration: ok") < out.index("words of wide") < out.index("wide: ok")


def test_a_step_beside_the_others_fails_them_all(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    steps_beside(monkeypatch, beside="raise SystemExit('words of wide')", after=SEEN)

    assert checks.main([]) == 1
    out = capsys.readouterr().out
    assert "words of wide" in out
    assert "wide failed; again" in out


def test_a_step_beside_one_that_fails_is_stopped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    steps_beside(monkeypatch, beside="", after="raise SystemExit(1)")

    assert checks.main([]) == 1
    assert "integration failed; again" in capsys.readouterr().out


def test_an_unknown_check_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert checks.main(["lintt"]) == 2
    assert "there are: shape, lint" in capsys.readouterr().out
