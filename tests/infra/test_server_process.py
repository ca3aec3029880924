"""A server process is awaited, complained about and ended in one way, each kind alike."""

import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from infra.ports import free_ports, is_free
from infra.server_process import ServerProcess
from infra.setup_error import SetupError

LIMIT_S = 20.0


def start(log: Path, code: str) -> ServerProcess:
    return ServerProcess.start([sys.executable, "-c", code], log, marker=code)


def log_has(process: ServerProcess, text: str) -> bool:
    return text in process.log.read_text()


def test_an_early_end_is_reported_with_code_and_log_but_no_java_stack(tmp_path: Path) -> None:
    log = tmp_path / "thing.log"
    process = start(log, r"print('no disk\n\tat java.Thing(1)\nsorry'); raise SystemExit(3)")

    with pytest.raises(SetupError) as raised:
        process.wait_until(lambda: False, LIMIT_S)

    expected = f"thing ended before it was ready with code 3; the end of {log}:\n  no disk\n  sorry"
    assert str(raised.value) == expected


def test_one_that_is_never_ready_is_killed(tmp_path: Path) -> None:
    process = start(tmp_path / "thing.log", "import time; time.sleep(60)")

    with pytest.raises(SetupError, match=r"^thing was not ready after 0 s; the end of "):
        process.wait_until(lambda: False, 0.0)

    assert not process.running


def test_one_that_ignores_sigterm_is_killed_after_the_limit(tmp_path: Path) -> None:
    stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); "
    process = start(tmp_path / "thing.log", f"{stubborn} time.sleep(60)")
    process.wait_until(lambda: log_has(process, "up"), LIMIT_S)

    process.stop(limit_s=0.2)

    assert process.child is not None
    assert process.child.returncode == -signal.SIGKILL


def test_a_process_of_someone_else_is_never_signalled(tmp_path: Path) -> None:
    reused = ServerProcess(os.getpid(), tmp_path / "thing.log", marker="a text of no command line")

    reused.stop(limit_s=0.0)  # would end this very test run
    reused.kill()

    assert not reused.running


def test_the_log_of_the_run_before_is_kept(tmp_path: Path) -> None:
    log = tmp_path / "thing.log"
    for word in ("first", "second"):
        assert start(log, f"print({word!r})").gone_within(LIMIT_S)

    logs = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert logs == {"thing.log": "second\n", "thing.previous.log": "first\n"}


def test_free_ports_are_free_and_different() -> None:
    ports = free_ports(3)

    assert len(set(ports)) == 3
    assert all(is_free(port) for port in ports)


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_a_port_with_a_listener_is_not_free(address: str) -> None:
    with socket.create_server((address, 0)) as listener:
        assert not is_free(listener.getsockname()[1])
