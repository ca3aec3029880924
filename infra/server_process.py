"""A server as a process of its own: started, awaited until it is ready, stopped, killed."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from infra.setup_error import SetupError

KILL_LIMIT_S = 10.0
_POLL_S = 0.05
_TAIL_LINES = 15
_TAIL_BYTES = 16_384


def last_lines(log: Path) -> str:
    """The end of `log`, indented and without Java's stack frames, for an error message."""
    if not log.exists():
        return "  (no log)"
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        lines = file.read().decode(errors="replace").splitlines()
    log_lines = [f"  {line}" for line in lines if not line.startswith("\tat ")]
    return "\n".join(log_lines[-_TAIL_LINES:]) or "  (the log is empty)"


def command_line(pid: int) -> str:
    """The command line of `pid`; empty if there is no such process, or only its zombie."""
    if Path("/proc/self/cmdline").exists():
        try:
            return os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" "))
        except OSError:
            return ""
    asked = ["ps", "-ww", "-o", "command=", "-p", str(pid)]  # macOS has no /proc
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout


@dataclass(frozen=True)
class ServerProcess:
    """A server process, started by us (`child`) or found by its pid.

    `marker` is a text of its command line that no other process has: pids are reused.
    """

    pid: int
    log: Path
    marker: str
    child: "subprocess.Popen[bytes] | None" = None

    @classmethod
    def start(
        cls,
        command: Sequence[str],
        log: Path,
        marker: str,
        environment: Mapping[str, str] | None = None,
    ) -> "ServerProcess":
        """Start `command`; all it prints goes to `log`, whose predecessor is kept beside it."""
        with suppress(FileNotFoundError):
            log.replace(log.with_suffix(f".previous{log.suffix}"))
        with log.open("wb") as output:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,  # Ctrl-C in the terminal is for us: we stop the server
            )
        return cls(child.pid, log, marker, child)

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        if self.child is not None:
            return self.child.poll() is None
        return self.marker in command_line(self.pid)

    def wait_until(self, ready: Callable[[], bool], limit_s: float) -> None:
        """Return once `ready()`; SetupError with the end of the log if it ends or takes too long.

        After every error, Ctrl-C included, no half-started process is left behind.
        """
        try:
            self._wait_until(ready, limit_s)
        except BaseException:
            self.kill()
            raise

    def stop(self, limit_s: float) -> None:
        """SIGTERM, and SIGKILL after `limit_s`; returns when the process is gone."""
        self._signal(signal.SIGTERM)
        if not self.gone_within(limit_s):
            self.kill()

    def kill(self) -> None:
        """SIGKILL; returns when the process is gone."""
        self._signal(signal.SIGKILL)
        if not self.gone_within(KILL_LIMIT_S):
            raise SetupError(f"Process {self.pid} outlives SIGKILL; see `ps {self.pid}`.")

    def gone_within(self, limit_s: float) -> bool:
        """Wait for the end of the process; False if it still runs after `limit_s`."""
        deadline = time.monotonic() + limit_s
        while self.running:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def _wait_until(self, ready: Callable[[], bool], limit_s: float) -> None:
        deadline = time.monotonic() + limit_s
        while not ready():
            if not self.running:
                raise SetupError(self._failure_text("ended before it was ready"))
            if time.monotonic() > deadline:
                raise SetupError(self._failure_text(f"was not ready after {limit_s:.0f} s"))
            time.sleep(_POLL_S)

    def _signal(self, number: signal.Signals) -> None:
        if self.running:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _failure_text(self, what: str) -> str:
        code = self.child.poll() if self.child is not None else None
        ended = "" if code is None else f" with code {code}"
        name = self.log.stem
        return f"{name} {what}{ended}; the end of {self.log}:\n{last_lines(self.log)}"
