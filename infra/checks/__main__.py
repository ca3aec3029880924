"""The command `python -m infra.checks [STEP ...]`: run all checks, or those named."""

import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from infra.checks.reports import counts
from infra.checks.steps import LONG, REPORTS, STEPS, again, report_of, second_report, tried_again


def main(names: Sequence[str]) -> int:
    """Run the steps until one fails; the exit code is 1 if one did, 2 for an unknown step."""
    known = {**STEPS, **LONG}
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"There is no check {unknown[0]!r}; there are: {', '.join(known)}")
        return 2
    chosen = names or tuple(STEPS)
    REPORTS.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    for number, name in enumerate(chosen, start=1):
        for report in (report_of(name), second_report(report_of(name))):
            report.unlink(missing_ok=True)
        if not _passes(name, known[name], f"[{number}/{len(chosen)}] {name}"):
            print(f"\n{name} failed; again: .venv/bin/python -m infra.checks {name}")
            print(_total(chosen, time.monotonic() - began))
            return 1
    print(_total(chosen, time.monotonic() - began))
    return 0


def _passes(name: str, command: Sequence[str], heading: str) -> bool:
    began = time.monotonic()
    passes = _runs(command, heading)
    if not passes and (tests := tried_again(name, report_of(name))):
        passes = _runs(again(command, report_of(name)), f"{heading}, second try")
        print(f"{heading}: failed at first: {', '.join(tests)}")
    verdict = "ok" if passes else "FAILED"
    print(f"{heading}: {verdict} ({time.monotonic() - began:.1f} s)", flush=True)
    return passes


def _runs(command: Sequence[str], heading: str) -> bool:
    program, *arguments = command
    print(f"\n{heading}: {shlex.join([Path(program).name, *arguments])}", flush=True)
    return subprocess.run(command, check=False).returncode == 0


def _total(names: Sequence[str], took_s: float) -> str:
    """One line in pytest's own form: the sum over all its runs, and the time of everything."""
    total: Counter[str] = Counter()
    for name in names:
        total += counts(report_of(name))
        second = counts(second_report(report_of(name)))
        total.subtract({"failed": second["passed"]})
        total += Counter({"passed at a second try": second["passed"]})
    summary = ", ".join(f"{count} {outcome}" for outcome, count in total.items()) or "no tests"
    return f"\n===== {summary} in {took_s:.2f}s ({took_s // 60:.0f}:{took_s % 60:02.0f}) ====="


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
