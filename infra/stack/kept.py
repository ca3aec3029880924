"""Processes that outlive the command that started them: recorded in a file, found through it."""

import json
from dataclasses import dataclass
from pathlib import Path

from infra.server_process import ServerProcess


@dataclass(frozen=True)
class Kept:
    """A server process, the port that it serves, and a digest of the settings that it has read."""

    name: str
    port: int
    process: ServerProcess
    settings: str = ""

    def note(self, folder: Path) -> None:
        """Write it down, so that `find` finds it."""
        state = {
            "pid": self.process.pid,
            "port": self.port,
            "log": str(self.process.log),
            "marker": self.process.marker,
            "settings": self.settings,
        }
        file = _file(folder, self.name)
        fresh = file.with_suffix(".new")
        fresh.write_text(json.dumps(state))
        fresh.replace(file)

    def stop(self, limit_s: float) -> None:
        """SIGTERM, and SIGKILL after `limit_s`."""
        self.process.stop(limit_s)


def find(folder: Path, name: str) -> Kept | None:
    """The process of that name that runs now, if any; what a crash left behind is none."""
    try:
        state = json.loads(_file(folder, name).read_text())
        process = ServerProcess(int(state["pid"]), Path(state["log"]), str(state["marker"]))
        kept = Kept(name, int(state["port"]), process, str(state.get("settings", "")))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return kept if process.running else None


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.json"
