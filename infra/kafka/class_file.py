"""Kafka's classes in one file, as Java has them in memory: a broker starts in half the time.

Java writes it when a broker is ended. That takes ten seconds, once, so that it is for
those who start many brokers, such as the tests.
"""

import signal
import tempfile
from pathlib import Path

from infra.cache import file_lock
from infra.kafka.broker import start_broker
from infra.kafka.java import class_file, java_command

WRITE_LIMIT_S = 120.0  # on a busy machine


def make_class_file() -> None:
    """Make it where there is none. Raises SetupError."""
    file = class_file()
    with file_lock(file.with_suffix(".lock")):
        if not file.exists():
            _make(file)


def _make(file: Path) -> None:
    fresh = file.with_suffix(".new")
    with tempfile.TemporaryDirectory(prefix="kafka-classes-") as place:
        folder = Path(place)
        start_broker(folder).stop()  # formats the folder, which is not to be recorded
        process = start_broker(
            folder, java=[*java_command(), f"-XX:AOTCacheOutput={fresh}"]
        ).process
        process.stop(WRITE_LIMIT_S)
        assert process.child is not None
        if process.child.returncode != -signal.SIGKILL and fresh.exists():
            fresh.replace(file)
