"""The installed wheels as the image runs them: nobody's user, a root that cannot be written."""

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.infra.distributions import CONTRACTS, SERVICES, build_wheel, pip
from tests.integration.bus import ANSWERED, Bus, request, until

pytestmark = pytest.mark.kafka

USER = 10001
# In mounts of its own: Python and its packages beside the wheels, and then nothing writable.
AS_IN_THE_IMAGE = """
set -e
mount --make-rprivate /
mount --bind "$1" "$3/python"
mount --bind "$2" "$3/packages"
cd "$3"
awk '$4 ~ /^rw/ && $2 !~ /^\\/(proc|sys|dev)/ {print $2}' /proc/self/mounts |
    while read -r place; do mount -o remount,bind,ro "$place"; done
cd "$3"
shift 3
exec setpriv --reuid 10001 --regid 10001 --clear-groups --no-new-privs --bounding-set -all \
    python/bin/python3 "$@"
"""
WRITES = """
import os, pathlib
for folder in os.environ["PLACES"].split():
    try:
        pathlib.Path(folder, "written").write_text("")
    except OSError:
        continue
    print(folder)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Both wheels, and room for settings, where any user may look."""
    if os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("setpriv"):
        pytest.skip("mounts of its own need root, unshare and setpriv")
    folder = Path(tempfile.mkdtemp(prefix="answerbus-installed-"))
    folder.chmod(0o755)
    for name in ("python", "packages"):
        (folder / name).mkdir()
    wheels = [
        str(build_wheel(one, tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")))
        for one in (CONTRACTS, SERVICES)
    ]
    pip("install", "--quiet", "--no-deps", "--target", str(folder / "site"), *wheels)
    yield folder
    shutil.rmtree(folder)


def in_image(installed: Path, *command: str, **variables: str) -> "subprocess.Popen[bytes]":
    """Start Python as the image would."""
    places = sys.base_prefix, sysconfig.get_path("purelib"), str(installed)
    return subprocess.Popen(
        ["unshare", "--mount", "bash", "-c", AS_IN_THE_IMAGE, "bash", *places, *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "PYTHONPATH": f"{installed}/site:{installed}/packages",
            "LD_LIBRARY_PATH": f"{installed}/python/lib",  # where a Python is built in two parts
            "PYTHONDONTWRITEBYTECODE": "1",
            **variables,
        },
    )


@pytest.mark.long
async def test_a_worker_answers_without_writing_to_any_disk(bus: Bus, installed: Path) -> None:
    probe = in_image(installed, "-c", WRITES, PLACES=f"/ /tmp /var/tmp /etc {installed}")
    assert probe.communicate(timeout=60)[0] == b""  # or the rest would prove nothing

    config = bus.config([{"reply": ANSWERED}])
    text = config.read_text(encoding="utf-8").replace(str(bus.folder), str(installed))
    lines = [line for line in text.splitlines() if not line.startswith("journal")]
    (installed / "answerbus.toml").write_text("\n".join(lines))
    shutil.copy(bus.folder / "script.json", installed)
    before = names(installed)
    worker = in_image(installed, "-m", "services.cli", "worker")
    try:
        await bus.publish([request("r-1", "w-1")])
        terminals = await bus.terminals(1)
        users = users_of(worker.pid)
        worker.send_signal(signal.SIGTERM)
        await until(lambda: worker.poll() is not None, "the worker has drained", 60)
    finally:
        worker.kill()
        message = worker.communicate()[0].decode()

    found = [(terminal["kind"], terminal["request_id"]) for terminal in terminals]
    assert found == [("result", "r-1")], message
    assert users == {str(USER)}
    assert worker.returncode == 0, message
    assert not any(word in message for word in ("Read-only", "Permission denied", "Traceback")), (
        message
    )
    assert names(installed) == before


def names(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


def users_of(process: int) -> set[str]:
    """Whom it runs as: real, effective, saved, of files."""
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    (line,) = (line for line in status.splitlines() if line.startswith("Uid:"))
    return set(line.split()[1:])
