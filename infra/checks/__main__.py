"""The command `python -m infra.checks [STEP ...]`: run all checks, or those named."""

import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from infra.checks.reports import counts
from infra.checks.steps import (
    BESIDE,
    LONG,
    REPORTS,
    STEPS,
    again,
    report_of,
    second_report,
    tried_again,
)

NICENESS_BESIDE = 10  # about a tenth of a core while others want both
OUTPUT_BESIDE = REPORTS / "beside.log"


def main(names: Sequence[str]) -> int:
    """Run the steps until one fails; the exit code is 1 if one did, 2 for an unknown step."""
    known = {**STEPS, **LONG}
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"There is no check {unknown[0]!r}; there are: {', '.join(known)}")
        return 2
    chosen = tuple(dict.fromkeys(names)) or tuple(STEPS)
    REPORTS.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    failed = _first_failed(chosen, known)
    if failed:
        print(f"\n{failed} failed; again: .venv/bin/python -m infra.checks {failed}")
    print(_total(chosen, time.monotonic() - began))
    return 1 if failed else 0


def _first_failed(chosen: Sequence[str], known: Mapping[str, Sequence[str]]) -> str | None:
    """The first step that fails; those after it are not run, and one beside it is stopped."""
    for name in chosen:
        for report in (report_of(name), second_report(report_of(name))):
            report.unlink(missing_ok=True)
    headings = {name: f"[{n}/{len(chosen)}] {name}" for n, name in enumerate(chosen, start=1)}
    with ExitStack() as stack:
        failed: str | None = None
        beside: subprocess.Popen[bytes] | None = None
        began = time.monotonic()
        for name in chosen:
            if name == BESIDE and name != chosen[-1]:
                _print_command(f"{headings[name]}, beside the next steps", known[name])
                began, beside = time.monotonic(), stack.enter_context(_started(known[name]))
            elif not _passes(name, known[name], headings[name]):
                failed = name
            if failed or (beside and beside.poll()):
                break
        if beside and (not failed or beside.poll()):
            passes = _ends(beside, known[BESIDE], headings[BESIDE], began)
            failed = failed or (None if passes else BESIDE)
        return failed


@contextmanager
def _started(command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process with less right to the cores, whose output goes to a file."""
    with OUTPUT_BESIDE.open("wb") as output:
        nice = ("nice", "-n", str(NICENESS_BESIDE), *command)
        process = subprocess.Popen(nice, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def _ends(
    beside: subprocess.Popen[bytes], command: Sequence[str], heading: str, began: float
) -> bool:
    print(f"\n{heading}: waiting for its end", flush=True)
    passes = beside.wait() == 0
    print(OUTPUT_BESIDE.read_text(errors="replace"), end="")
    return _verdict(BESIDE, command, heading, began, passes=passes)


def _passes(name: str, command: Sequence[str], heading: str) -> bool:
    began = time.monotonic()
    return _verdict(name, command, heading, began, passes=_runs(command, heading))


def _verdict(
    name: str, command: Sequence[str], heading: str, began: float, *, passes: bool
) -> bool:
    """Whether it passes, perhaps at a second try of a few tests."""
    if not passes and (tests := tried_again(name, report_of(name))):
        passes = _runs(again(command, report_of(name)), f"{heading}, second try")
        print(f"{heading}: failed at first: {', '.join(tests)}")
    verdict = "ok" if passes else "FAILED"
    print(f"{heading}: {verdict} ({time.monotonic() - began:.1f} s)", flush=True)
    return passes


def _runs(command: Sequence[str], heading: str) -> bool:
    _print_command(heading, command)
    return subprocess.run(command, check=False).returncode == 0


def _print_command(heading: str, command: Sequence[str]) -> None:
    program, *arguments = command
    print(f"\n{heading}: {shlex.join([Path(program).name, *arguments])}", flush=True)


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
