"""The command `python -m infra.checks [STEP ...]`: run all checks, or those named."""

import shlex
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from infra.checks.steps import REPORTS, STEPS, report_of


def main(names: Sequence[str]) -> int:
    """Run the steps until one fails; the exit code is 1 if one did, 2 for an unknown step."""
    unknown = [name for name in names if name not in STEPS]
    if unknown:
        print(f"There is no check {unknown[0]!r}; there are: {', '.join(STEPS)}")
        return 2
    chosen = names or tuple(STEPS)
    REPORTS.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    for number, name in enumerate(chosen, start=1):
        report_of(name).unlink(missing_ok=True)
        if not _passes(name, f"[{number}/{len(chosen)}] {name}"):
            print(f"\n{name} failed; again: .venv/bin/python -m infra.checks {name}")
            print(_total(chosen, time.monotonic() - began))
            return 1
    print(_total(chosen, time.monotonic() - began))
    return 0


def _passes(name: str, heading: str) -> bool:
    program, *arguments = STEPS[name]
    print(f"\n{heading}: {shlex.join([Path(program).name, *arguments])}", flush=True)
    began = time.monotonic()
    passes = subprocess.run(STEPS[name], check=False).returncode == 0
    verdict = "ok" if passes else "FAILED"
    print(f"{heading}: {verdict} ({time.monotonic() - began:.1f} s)", flush=True)
    return passes


def _total(names: Sequence[str], took_s: float) -> str:
    """One line in pytest's own form: the sum over all its runs, and the time of everything."""
    counts: Counter[str] = Counter()
    for name in names:
        if report_of(name).exists():
            counts += _counts(name)
    said = ", ".join(f"{count} {outcome}" for outcome, count in counts.items()) or "no tests"
    return f"\n===== {said} in {took_s:.2f}s ({took_s // 60:.0f}:{took_s % 60:02.0f}) ====="


def _counts(name: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for suite in ET.parse(report_of(name)).getroot().iter("testsuite"):
        failed, skipped, errors, tests = (
            int(suite.get(key, 0)) for key in ("failures", "skipped", "errors", "tests")
        )
        passed = tests - failed - skipped - errors
        counts.update(failed=failed, passed=passed, skipped=skipped, errors=errors)
    return +counts


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
