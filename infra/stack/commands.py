"""The `answerbus` command as a process of its own: run to its end, or started as a worker."""

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from infra.ports import LOOPBACK, free_ports
from infra.server_process import ServerProcess
from infra.setup_error import SetupError
from infra.stack import settings_file
from infra.stack.kept import Kept

START_LIMIT_S = 60.0
TOOLS_ARE_SERVED = " INFO serving "  # in the log of a tool server, once its card is written
LANES_LIMIT_S = 60.0
RUN_LIMIT_S = 60.0
_ASK_LIMIT_S = 2.0
_POLL_S = 0.1
_CHECKOUT = Path(__file__).parents[2]
_SETTINGS = "ANSWERBUS_"
_ANSWERBUS = (sys.executable, "-m", "services.cli")


def run_answerbus(config: Path, *arguments: str) -> str:
    """The output of `answerbus ARGUMENTS --config CONFIG`; SetupError with its complaint."""
    command = [*_ANSWERBUS, *arguments, "--config", str(config)]
    try:
        done = subprocess.run(
            command,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=RUN_LIMIT_S,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        message = f"{error.stdout}{error.stderr}".strip()
        raise SetupError(f"answerbus {' '.join(arguments)} failed: {message}") from None
    except subprocess.TimeoutExpired:
        raise SetupError(
            f"answerbus {' '.join(arguments)} did not end within {RUN_LIMIT_S:.0f} s"
        ) from None
    return done.stdout


def launch_worker(name: str, config: Path, logs: Path) -> Kept:
    """Start a worker and return at once; `await_worker` and `await_lanes` wait for it."""
    port, settings = free_ports(1)[0], settings_file.digest(config)
    worker = ["services.cli", "worker", "--config", str(config.resolve())]
    own = {"ANSWERBUS_WORKER__NAME": name, "ANSWERBUS_WORKER__HEALTH": f"{LOOPBACK}:{port}"}
    process = ServerProcess.start(
        [sys.executable, "-m", *worker],
        log=logs / f"{name}.log",
        marker=" ".join(worker),
        environment={**_environment(), **own},
    )
    return Kept(name, port, process, settings)


def launch_tool_server(name: str, toolset: str, config: Path, logs: Path) -> Kept:
    """Start a tool server, and return once it has announced its tools."""
    tools = ["services.cli", "tools", "serve", toolset, "--config", str(config.resolve())]
    log = logs / f"{name}.log"
    process = ServerProcess.start(
        [sys.executable, "-m", *tools], log=log, marker=" ".join(tools), environment=_environment()
    )
    process.wait_until(lambda: TOOLS_ARE_SERVED in log.read_text(), START_LIMIT_S)
    return Kept(name, 0, process, settings_file.digest(config))


def await_worker(worker: Kept) -> None:
    """Return once it has checked its set-up; SetupError with the end of its log if that fails."""
    worker.process.wait_until(lambda: health_of(worker) is not None, START_LIMIT_S)


def await_lanes(workers: Sequence[Kept], partitions: int) -> None:
    """Return once every partition has an open lane, and no worker is left without one."""
    deadline = time.monotonic() + LANES_LIMIT_S
    while not _share(workers, partitions):
        if time.monotonic() > deadline:
            raise SetupError(
                f"After {LANES_LIMIT_S:.0f} s the workers still do not share all partitions: "
                + "; ".join(f"{worker.name} {health_of(worker)}" for worker in workers)
            )
        time.sleep(_POLL_S)


def health_of(worker: Kept) -> Mapping[str, object] | None:
    """Its own report, ready (200) or not (503); None if it does not answer."""
    connection = http.client.HTTPConnection(LOOPBACK, worker.port, timeout=_ASK_LIMIT_S)
    try:
        connection.request("GET", "/ready")
        body: Mapping[str, object] = json.loads(connection.getresponse().read())
    except (OSError, ValueError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    return body


def _share(workers: Sequence[Kept], partitions: int) -> bool:
    open_lanes = [_open_lanes(health_of(worker)) for worker in workers]
    return all(open_lanes) and sum(open_lanes) == partitions


def _open_lanes(health: Mapping[str, object] | None) -> int:
    lanes = health.get("lanes") if health else None
    return list(lanes.values()).count("open") if isinstance(lanes, dict) else 0


def _environment() -> dict[str, str]:
    """As ours, but with this checkout to import from and without settings from elsewhere."""
    inherited = dict(os.environ)  # noqa: TID251 - processes inherit the rest
    for name in filter(lambda name: name.upper().startswith(_SETTINGS), tuple(inherited)):
        del inherited[name]
    here = [str(_CHECKOUT), str(_CHECKOUT / "contracts")]
    search = [*here, *filter(None, [inherited.get("PYTHONPATH")])]
    return {**inherited, "PYTHONPATH": os.pathsep.join(search)}
