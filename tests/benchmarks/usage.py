"""What processes cost, from /proc (so on Linux alone): CPU time, memory, and what others took."""

import os
from dataclasses import dataclass
from pathlib import Path

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Usage:
    """Of all processes of one session: user and system time, memory now and at its peak."""

    cpu_s: float
    rss_mib: float
    peak_mib: float


def of_session(leader: int) -> Usage:
    """Of a process started as the leader of its session, and of all its children."""
    cpu_s = rss = peak = 0.0
    for pid in _members(leader):
        try:
            cpu_s += _cpu_s(pid)
            memory = _memory(pid)
        except OSError:
            continue  # it ended meanwhile
        rss += memory["VmRSS"]
        peak += memory["VmHWM"]
    return Usage(cpu_s, rss, peak)


def of_machine_s() -> float:
    """CPU time that all processes took since the machine started."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _idle, _iowait, irq, softirq = map(int, fields[:7])
    return (user + nice + system + irq + softirq) * _TICK_S


def _members(leader: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if int(_stat(int(entry.name))[3]) == leader:
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def _stat(pid: int) -> list[str]:
    """The fields from the third on: the second is a name that may hold anything."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _cpu_s(pid: int) -> float:
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) * _TICK_S


def _memory(pid: int) -> dict[str, float]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    pairs = (line.split(":", 1) for line in lines if line.startswith(("VmRSS", "VmHWM")))
    return {name: int(rest.split()[0]) / 1024 for name, rest in pairs}
