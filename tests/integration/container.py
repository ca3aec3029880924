"""The Kafka of docker-compose.yml as a container, for tests where a Docker engine answers."""

import gc
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from infra.kafka.broker import answers
from infra.ports import LOOPBACK, free_ports

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer

COMPOSE = Path(__file__).parents[2] / "docker-compose.yml"
INSIDE_PORT = 29092  # where the container listens for clients of this machine
START_LIMIT_S = 120.0  # the image may have to be pulled before
LOOK_S = 0.2
PING_LIMIT_S = 2
LOG_LINES = 30


def docker_answers() -> bool:
    """Whether there is an engine to be used."""
    with warnings.catch_warnings():
        # docker forgets to close the socket of a try that failed.
        warnings.simplefilter("ignore", ResourceWarning)
        found = _ping()
        gc.collect()
    return found


def settings() -> tuple[str, dict[str, str], str]:
    """The image, the environment and the host name that docker-compose.yml gives its broker."""
    service = yaml.safe_load(COMPOSE.read_text("utf-8"))["services"]["kafka"]
    environment = {name: str(value) for name, value in service["environment"].items()}
    return service["image"], environment, "kafka"


@contextmanager
def kafka_container() -> Iterator[str]:
    """A broker in a container of its own; gives its bootstrap servers."""
    # Only where there is an engine.
    from testcontainers.core.container import DockerContainer  # noqa: PLC0415

    (port,) = free_ports(1)
    image, environment, host = settings()
    advertised = environment["KAFKA_ADVERTISED_LISTENERS"]
    environment["KAFKA_ADVERTISED_LISTENERS"] = advertised.replace(
        "HOST://localhost:9092", f"HOST://{LOOPBACK}:{port}"
    )
    container = DockerContainer(image, env=environment, hostname=host)
    # On this machine alone; `with_bind_ports` knows no address.
    container.ports[f"{INSIDE_PORT}/tcp"] = (LOOPBACK, port)  # type: ignore[assignment]
    with container:
        _wait(container, port)
        yield f"{LOOPBACK}:{port}"


def _wait(container: "DockerContainer", port: int) -> None:
    limit = time.monotonic() + START_LIMIT_S
    while not answers(port):
        if time.monotonic() > limit:
            log = container.get_wrapped_container().logs(tail=LOG_LINES)
            message = log.decode(errors="replace")
            raise TimeoutError(
                f"Kafka in Docker did not answer in {START_LIMIT_S:.0f} s:\n{message}"
            )
        time.sleep(LOOK_S)


def _ping() -> bool:
    try:
        import docker  # noqa: PLC0415 - only to ask

        client = docker.from_env(timeout=PING_LIMIT_S)
    except Exception:
        return False
    try:
        return bool(client.ping())
    except Exception:
        return False
    finally:
        client.close()
