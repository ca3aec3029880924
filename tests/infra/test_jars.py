"""The jars of the broker are those that are written down, byte for byte."""

from hashlib import sha256
from pathlib import Path

import pytest

from infra.kafka import java
from infra.kafka.java import KAFKA_VERSION, difference, expected


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "a-1.jar", tmp_path / "b-2.jar"]
    for path in paths:
        path.write_bytes(path.name.encode())
    return paths


def table(files: list[Path]) -> dict[str, str]:
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_jars_that_are_written_down_may_be_run(files: list[Path]) -> None:
    assert difference(files, table(files)) is None


def test_a_jar_that_is_another_file_is_named(files: list[Path]) -> None:
    known = table(files)
    files[1].write_bytes(b"b-2.jaR")

    reported = difference(files, known) or ""

    assert str(files[1]) in reported
    assert known["b-2.jar"] in reported


def test_a_jar_without_a_checksum_is_named(files: list[Path]) -> None:
    known = table(files[:1])

    assert "b-2.jar is none of those" in (difference(files, known) or "")


def test_a_jar_that_is_missing_is_named(files: list[Path]) -> None:
    assert difference(files[:1], table(files)) == "b-2.jar is not among them"


def test_the_table_is_that_of_the_version_that_is_run() -> None:
    known = expected()

    assert f"kafka_2.13-{KAFKA_VERSION}.jar" in known
    assert f"kafka-clients-{KAFKA_VERSION}.jar" in known
    assert all(len(digest) == 64 for digest in known.values())
    assert java.TABLE.read_text().isascii()
