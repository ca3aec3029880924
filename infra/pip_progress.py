"""pip with one line of progress in place of hundreds; its output is shown if it fails.

Standard library alone: this runs before anything is installed.
"""

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

LINES_SHOWN_MAX = 40
_PIN = re.compile(r"^[A-Za-z0-9][\w.-]*==", re.MULTILINE)
_TAKEN = re.compile(r"(?:Collecting|Requirement already satisfied:) ([A-Za-z0-9][\w.-]*)")
_PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input")


def run(arguments: Sequence[str]) -> int:
    """Run pip with these arguments; gives its exit code."""
    total, done = _pins(arguments), 0
    lines: list[str] = []
    pip = subprocess.Popen(
        [sys.executable, *_PIP, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    for line in pip.stdout or ():
        lines.append(line)
        if found := _TAKEN.match(line):
            done += 1
            _show(f"{min(done, total)} of {total} packages: {found[1]}" if total else found[1])
        elif line.startswith(("Installing collected", "Building editable")):
            _show(line.partition(":")[0].strip())
    code = pip.wait()
    _show("")
    if code:
        sys.stderr.writelines(lines[-LINES_SHOWN_MAX:])
    return code


def _pins(arguments: Sequence[str]) -> int:
    """How many packages the requirement files among the arguments name."""
    return sum(len(_PIN.findall(Path(name).read_text())) for name in _files(arguments))


def _files(arguments: Sequence[str]) -> Iterator[str]:
    for option, value in pairwise(arguments):
        if option in {"-r", "--requirement"}:
            yield value


def _show(text: str) -> None:
    if sys.stdout.isatty():
        sys.stdout.write(f"\r\033[K{text[:72]}")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
