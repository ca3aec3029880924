"""One target under the fuzzer, from outside: its process, its folders, and what it found."""

import hashlib
import json
import shlex
import subprocess
import sys
import threading
import time
from pathlib import Path

from rich.console import Console

from tests.fuzz.targets import TARGETS

CONSOLE = Console(markup=False, highlight=False, soft_wrap=True)
KEPT = Path(__file__).parent / "corpus"
WORK = Path(".run/fuzz")
LOG = WORK / "fuzzer.log"
INPUT_BYTES_MAX = 8192
INPUT_S_MAX = 20  # of one input, with instrumented code
MEMORY_MIB_MAX = 2048
LOG_CHARS = 4000  # of a failure, shown at once


def fuzz(seconds: float, seed: int, name: str) -> bool:
    """Whether all inputs held; prints one line, or what broke."""
    began, found = time.monotonic(), WORK / "found" / name
    found.mkdir(parents=True, exist_ok=True)
    for start in TARGETS[name].seeds():
        (found / hashlib.sha256(start).hexdigest()).write_bytes(start)
    log = WORK / f"{name}.log"
    limits = (f"-max_total_time={seconds:.0f}", f"-seed={seed}")
    holds = _run(name, log, *limits, found, KEPT / name)
    text = log.read_text(errors="replace")
    if holds:
        done = [line for line in text.splitlines() if line.startswith("Done ")]
        CONSOLE.print(f"  {name}: {''.join(done)}, {time.monotonic() - began:.0f} s in all")
        return True
    CONSOLE.print(f"  {name}: BROKEN, see {log}\n{text[-LOG_CHARS:]}")
    for path in sorted(WORK.glob(f"{name}-*")):
        CONSOLE.print(f"  again: {sys.executable} -m tests.fuzz --replay {path}")
    return False


def keep(name: str) -> None:
    """Add the inputs that reach code which no kept input reaches."""
    before = len(list((KEPT / name).iterdir()))
    _run(name, WORK / f"{name}.merge.log", "-merge=1", KEPT / name, WORK / "found" / name)
    CONSOLE.print(f"  {name}: {len(list((KEPT / name).iterdir())) - before} inputs more are kept")


def _run(name: str, log: Path, *options: str | Path) -> bool:
    """One process of the fuzzer; whether it ended well."""
    (KEPT / name).mkdir(parents=True, exist_ok=True)
    bounds = (
        f"-max_len={INPUT_BYTES_MAX}",
        f"-timeout={INPUT_S_MAX}",
        f"-rss_limit_mb={MEMORY_MIB_MAX}",
        f"-artifact_prefix={WORK}/{name}-",
    )
    return _of_this_thread().run(str(log), str(_program(name)), name, *bounds, *map(str, options))


class _Fuzzer:
    """A process with the instrumented code, and a child of it for each run."""

    def __init__(self) -> None:
        command, pipe = (sys.executable, "-m", "tests.fuzz.one"), subprocess.PIPE
        with LOG.open("a") as log:
            self._process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=log, text=True, bufsize=1
            )

    def run(self, *arguments: str) -> bool:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(arguments) + "\n")
        if not (code := self._process.stdout.readline()):
            raise RuntimeError(f"the fuzzer has ended: see {LOG}")
        return code == "0\n"


_threads = threading.local()


def _of_this_thread() -> _Fuzzer:
    if not hasattr(_threads, "fuzzer"):
        _threads.fuzzer = _Fuzzer()
    fuzzer: _Fuzzer = _threads.fuzzer
    return fuzzer


def _program(name: str) -> Path:
    """A file that starts the target: merging starts further processes by the first argument."""
    path = (WORK / f"{name}.sh").resolve()
    command = shlex.join([sys.executable, "-m", "tests.fuzz.one", str(path), name])
    path.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    path.chmod(0o755)
    return path
