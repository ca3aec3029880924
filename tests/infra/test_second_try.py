"""The checks try few failed tests of real processes once more, and say so."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from infra.checks.reports import counts, failed
from infra.checks.steps import BESIDE, again, second_report, tried_again

FAILS_ONCE = """
from pathlib import Path

def test_right():
    pass

def test_fails_once():
    mark = Path(__file__).with_name("mark")
    tried, _ = mark.exists(), mark.touch()
    assert tried
"""


def run(folder: Path, command: tuple[str, ...]) -> int:
    return subprocess.run(command, cwd=folder, check=False, capture_output=True).returncode


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text(FAILS_ONCE)
    return tmp_path


def command(report: Path) -> tuple[str, ...]:
    xdist = ("--numprocesses=0", "--dist=no")
    return (sys.executable, "-m", "pytest", f"--junit-xml={report}", *xdist)


def test_what_failed_is_tried_alone(project: Path) -> None:
    report = project / "integration.xml"
    assert run(project, command(report)) == 1
    assert tried_again("integration", report) == ["test_it::test_fails_once"]

    assert tried_again(BESIDE, report) == ["test_it::test_fails_once"]
    assert run(project, again(command(report), report)) == 0
    assert counts(report) == Counter(passed=1, failed=1)
    assert counts(second_report(report)) == Counter(passed=1)
    assert failed(second_report(report)) == []


def test_what_fails_twice_fails(project: Path) -> None:
    (project / "test_it.py").write_text("def test_wrong():\n    assert False\n")
    report = project / "integration.xml"
    assert run(project, command(report)) == 1
    assert run(project, again(command(report), report)) == 1


def test_many_failures_and_quick_tests_have_one_try(project: Path) -> None:
    report = project / "quick.xml"
    assert run(project, command(report)) == 1
    assert not tried_again("quick", report)

    lines = (f"def test_{n}():\n    assert False\n" for n in range(3))
    (project / "test_it.py").write_text("\n".join(lines))
    assert run(project, command(report)) == 1
    assert len(failed(report)) == 3
    assert not tried_again("integration", report)


def test_a_test_that_fails_at_its_teardown_as_well_is_one(project: Path) -> None:
    fixture = "import pytest\n\n@pytest.fixture\ndef bad():\n    yield\n    assert False\n\n"
    (project / "test_it.py").write_text(fixture + "def test_it(bad):\n    assert False\n")
    report = project / "wide.xml"
    assert run(project, command(report)) == 1
    assert counts(report) == Counter(failed=1, errors=1)
    assert failed(report) == ["test_it::test_it"]


def test_a_step_without_a_report_has_one_try(tmp_path: Path) -> None:
    assert not tried_again("integration", tmp_path / "none.xml")
