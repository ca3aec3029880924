"""Prometheus and promtool: found, or Debian's package unpacked into the cache."""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

from infra.cache import cache_folder, file_lock
from infra.ports import LOOPBACK, free_ports
from infra.server_process import ServerProcess
from infra.setup_error import SetupError

FETCH_LIMIT_S = 180.0
START_LIMIT_S = 60.0
SCRAPE_S = 1


def program(name: str) -> Path:
    """`prometheus` or `promtool`. SetupError: it is not here and cannot be had."""
    if found := shutil.which(name):
        return Path(found)
    folder = cache_folder() / "prometheus"
    with file_lock(folder.with_suffix(".lock")):
        if not (folder / "usr/bin" / name).exists():
            _fetch(folder)
    return folder / "usr/bin" / name


def _fetch(folder: Path) -> None:
    if not shutil.which("apt-get"):
        raise SetupError("There is no Prometheus here: install it, so that `prometheus` is found.")
    with tempfile.TemporaryDirectory() as place:
        fetch = ["apt-get", "download", "prometheus"]
        done = subprocess.run(
            fetch, cwd=place, capture_output=True, text=True, timeout=FETCH_LIMIT_S, check=False
        )
        packages = list(Path(place).glob("*.deb"))
        if done.returncode or not packages:
            raise SetupError(f"Debian's prometheus cannot be fetched: {done.stderr.strip()}")
        subprocess.run(["dpkg-deb", "--extract", str(packages[0]), str(folder)], check=True)


@dataclass(frozen=True)
class Prometheus:
    """One that runs."""

    url: str

    def ask(self, path: str, **query: str) -> Any:
        """What its API says. Raises URLError while it does not answer."""
        with urlopen(f"{self.url}/api/v1/{path}?{urlencode(query)}", timeout=10) as response:
            body = json.loads(response.read())
        return body["data"]

    def alerts(self) -> Mapping[str, str]:
        """Each alert by name: inactive, pending or firing."""
        (group,) = self.ask("rules", type="alert")["groups"]
        return {rule["name"]: rule["state"] for rule in group["rules"]}


@contextmanager
def prometheus(folder: Path, rules: str, targets: Sequence[str]) -> Iterator[Prometheus]:
    """Scrape `targets` each second and evaluate these rules."""
    (port,) = free_ports(1)
    (folder / "alerts.yml").write_text(rules, encoding="utf-8")
    often = ("scrape_interval", "scrape_timeout", "evaluation_interval")
    scraped = {"job_name": "answerbus", "static_configs": [{"targets": [*targets]}]}
    settings = {
        "global": dict.fromkeys(often, f"{SCRAPE_S}s"),
        "rule_files": ["alerts.yml"],
        "scrape_configs": [scraped],
    }
    file = folder / "prometheus.yml"
    file.write_text(yaml.safe_dump(settings), encoding="utf-8")
    own = Prometheus(f"http://{LOOPBACK}:{port}")
    places = [f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}"]
    process = ServerProcess.start(
        [str(program("prometheus")), *places, f"--web.listen-address={LOOPBACK}:{port}"],
        log=folder / "prometheus.log",
        marker=str(file),
    )
    try:
        process.wait_until(lambda: answers(own), START_LIMIT_S)
        yield own
    finally:
        process.stop(10)


def answers(own: Prometheus) -> bool:
    """Whether it has read its rules."""
    try:
        return bool(own.ask("rules")["groups"])
    except (URLError, OSError):
        return False
