"""A second, reported try for a few failed tests of real processes.

Tests on real brokers, models and browsers depend on a machine that others may load. A fault of
the code fails twice; a fault of time does not, and must not stop what is right from landing.
Apache Kafka's own build does the same. Each test that needed it is named, so that it is mended.
"""

from collections.abc import Sequence
from pathlib import Path

from infra.checks.reports import failed

STEPS_TRIED_AGAIN = ("integration", "browser", "e2e")
TESTS_TRIED_AGAIN_MAX = 2  # more than that is not an accident


def second_report(report: Path) -> Path:
    """Where the second try of a step is reported."""
    return report.with_name(f"{report.stem}-second-try.xml")


def tried_again(name: str, report: Path) -> Sequence[str]:
    """The tests that get a second try; none, if this step or so many failures do not."""
    tests = failed(report)
    if name not in STEPS_TRIED_AGAIN or len(tests) > TESTS_TRIED_AGAIN_MAX:
        return ()
    return tests


def again(command: Sequence[str], report: Path) -> tuple[str, ...]:
    """A step's command for what failed in it, one test after the other."""
    options = [each for each in command if not each.startswith(("--numprocesses", "--dist"))]
    chosen = ("--last-failed", "--last-failed-no-failures=none")
    return (*options, f"--junit-xml={second_report(report)}", *chosen)
