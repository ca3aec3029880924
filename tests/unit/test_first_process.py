"""`answerbus` as the first process of a container, which hears only the signals it handles."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.wide  # starts processes
START_S = 60.0
END_S = 10.0


@pytest.fixture
def silent_broker() -> Iterator[socket.socket]:
    """It takes connections and answers nothing, so that a worker waits at its start."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(START_S)
        yield listener


def test_a_worker_that_is_to_end_while_it_starts_ends(
    silent_broker: socket.socket, tmp_path: Path
) -> None:
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("a process of number 1 needs root and unshare")
    host, port = silent_broker.getsockname()
    settings = tmp_path / "answerbus.toml"
    settings.write_text(f'[kafka]\nbootstrap_servers = "{host}:{port}"\n', encoding="utf-8")
    alone = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-m"]
    worker = ["services.cli", "worker", "--config", str(settings)]
    with subprocess.Popen([*alone, *worker]) as started:
        try:
            connection, _ = silent_broker.accept()
            children = Path(f"/proc/{started.pid}/task/{started.pid}/children")
            os.kill(int(children.read_text(encoding="ascii")), signal.SIGTERM)
            assert started.wait(END_S) == 128 + signal.SIGTERM
            connection.close()
        finally:
            started.kill()
