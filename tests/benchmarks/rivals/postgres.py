"""PostgreSQL as a plain process in a folder of its own, as Debian's package brings it."""

import os
import pwd
import shutil
import tempfile
from pathlib import Path
from subprocess import PIPE, STDOUT, run

from infra.ports import LOOPBACK, free_ports
from infra.server_process import ServerProcess
from infra.setup_error import SetupError

USER = "postgres"  # made by the package; as root PostgreSQL does not run
START_LIMIT_S = 60.0
STOP_LIMIT_S = 20.0
CONNECTIONS_MAX = 100


def programs() -> Path | None:
    """Where `initdb` and `postgres` are: on the path, or where Debian puts them."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return places[-1] if places else None


class Postgres:
    """Started when it is made; durable, as a database that is paid for is."""

    def __init__(self, log: Path) -> None:
        """Raises SetupError."""
        found = programs()
        if found is None:
            raise SetupError("PostgreSQL is not installed (Debian: apt-get install postgresql)")
        self._programs, self._log = found, log
        self._folder = Path(tempfile.mkdtemp(prefix="postgres-"))
        (self._port,) = free_ports(1)
        self._own()
        self._prepare()
        data = self._folder / "data"
        command = [str(found / "postgres"), "-D", str(data), "-p", str(self._port)]
        command += ["-h", LOOPBACK, "-k", str(self._folder)]
        command += ["-c", f"max_connections={CONNECTIONS_MAX}"]
        self.process = ServerProcess.start(self._as_user(command), log, "")
        self.process.wait_until(self._is_ready, START_LIMIT_S)

    @property
    def url(self) -> str:
        """Of its one database."""
        return f"postgresql://{USER}@{LOOPBACK}:{self._port}/postgres"

    def query(self, text: str) -> str:
        """The one value that a query gives."""
        done = self._run("psql", self.url, "-At", "-c", text)
        return done.strip()

    def wal_bytes(self) -> int:
        """How much it has written in all, to its log."""
        return int(float(self.query("select pg_current_wal_lsn() - '0/0'::pg_lsn")))

    def stop(self) -> None:
        """End it, and remove what it kept."""
        self.process.stop(STOP_LIMIT_S)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _prepare(self) -> None:
        data = self._folder / "data"
        self._run("initdb", "-D", str(data), "-U", USER, "--auth=trust", "--no-instructions")

    def _is_ready(self) -> bool:
        command = [str(self._programs / "pg_isready"), "-h", LOOPBACK, "-p", str(self._port)]
        return run(command, stdout=PIPE, stderr=STDOUT, check=False).returncode == 0

    def _run(self, name: str, *arguments: str) -> str:
        command = self._as_user([str(self._programs / name), *arguments])
        done = run(command, stdout=PIPE, stderr=STDOUT, text=True, check=False, cwd="/")
        if done.returncode:
            raise SetupError(f"{name} failed: {done.stdout[-500:]}")
        return done.stdout

    def _own(self) -> None:
        if os.geteuid() == 0:
            try:
                found = pwd.getpwnam(USER)
            except KeyError:
                raise SetupError(f"there is no user {USER} to run PostgreSQL as") from None
            os.chown(self._folder, found.pw_uid, found.pw_gid)

    def _as_user(self, command: list[str]) -> list[str]:
        if os.geteuid() != 0:
            return command
        return ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups", *command]
