"""Collector and Prometheus of docker-compose.yml as processes, with their own commands.

The collector is built from its parts by Go, once; Prometheus is Debian's. Grafana is in no
registry: tests/infra/test_dashboards.py and `make alerts` ask a Prometheus for what it would show.
"""

import os
import shutil
import subprocess
from pathlib import Path

import yaml

from infra.cache import cache_folder, file_lock
from infra.ports import LOOPBACK, free_ports
from infra.server_process import ServerProcess
from infra.setup_error import SetupError
from tests.alerts.prometheus import Prometheus, answers, program
from tests.infra.compose import ROOT, services

BUILD_LIMIT_S = 1_200.0  # one and a half minutes of CPU
LIMIT_S = 120.0
SOURCE = Path(__file__).parent / "collector"


def start_collector(folder: Path) -> tuple[ServerProcess, str]:
    """It, and where it takes spans."""
    (port,) = free_ports(1)
    given = yaml.safe_load((ROOT / "infra/docker/collector.yaml").read_text(encoding="utf-8"))
    given["receivers"]["otlp"]["protocols"]["http"]["endpoint"] = f"{LOOPBACK}:{port}"
    given["service"]["telemetry"] = {"metrics": {"level": "none"}}  # else at a port of its own
    settings = folder / "collector.yaml"
    settings.write_text(yaml.safe_dump(given), encoding="utf-8")
    words = [word.replace("/etc/collector.yaml", str(settings)) for word in command("collector")]
    process = ServerProcess.start([str(_built()), *words], folder / "collector.log", "collector")
    process.wait_until(lambda: "Everything is ready" in log_of(process), LIMIT_S)
    return process, f"http://{LOOPBACK}:{port}"


def start_prometheus(folder: Path, scraped: str) -> tuple[ServerProcess, Prometheus]:
    """It, with our alerts; `scraped` is the address that the names of workers stand for."""
    (port,) = free_ports(1)
    own = Prometheus(f"http://{LOOPBACK}:{port}")
    given = yaml.safe_load((ROOT / "infra/prometheus/prometheus.yml").read_text(encoding="utf-8"))
    (job,) = given["scrape_configs"]
    assert "worker" in job.pop("dns_sd_configs")[0]["names"]
    job |= {"static_configs": [{"targets": [scraped]}], "scrape_interval": "1s"}
    settings = folder / "prometheus.yml"
    settings.write_text(yaml.safe_dump(given), encoding="utf-8")
    shutil.copy(ROOT / "infra/prometheus/alerts.yml", folder)
    places = {"/etc/prometheus/prometheus.yml": settings, "/prometheus": folder / "prometheus"}
    words = [
        f"{name}={places[Path(place).as_posix()]}"
        for name, _, place in (word.partition("=") for word in command("prometheus"))
    ]
    process = ServerProcess.start(
        [str(program("prometheus")), *words, f"--web.listen-address={LOOPBACK}:{port}"],
        folder / "prometheus.log",
        "prometheus",
    )
    process.wait_until(lambda: answers(own), LIMIT_S)
    return process, own


def command(name: str) -> list[str]:
    """As the container runs it."""
    words: list[str] = services()[name]["command"]
    return words


def log_of(process: ServerProcess) -> str:
    return process.log.read_text(encoding="utf-8", errors="replace")


def _built() -> Path:
    """The collector. SetupError: there is no Go, or it cannot be built."""
    go = shutil.which("go")
    if not go:
        raise SetupError("There is no Go here to build the collector with: install it.")
    built = cache_folder() / "collector"
    with file_lock(built.with_suffix(".lock")):
        done = subprocess.run(
            [go, "build", "-o", built, "."],
            cwd=SOURCE,
            env=dict(os.environ),  # noqa: TID251 - for a child
            capture_output=True,
            text=True,
            timeout=BUILD_LIMIT_S,
            check=False,
        )
    if done.returncode:
        raise SetupError(f"The collector cannot be built: {done.stderr.strip()}")
    return built
