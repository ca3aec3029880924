"""Wheels and sdists of both distributions: built, checked, and installed where nothing else is."""

import json
import re
import sys
import tarfile
import tomllib
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.infra.distributions import CONTRACTS, ROOT, SERVICES, build_both, pip, run

ENVIRONMENT_BYTES_MAX = 130_000_000  # with the base of about 120 MB the image stays below 250 MB
INSTALLED = pytest.mark.long  # it installs both once more
IMPORTS = "import services.cli, services.worker.main, services.console.main"


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    for source in (CONTRACTS, SERVICES):
        build_both(source, tmp_path_factory.mktemp("source"), folder)
    return folder


@pytest.fixture(scope="module")
def environment(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As the image has it: both wheels with all that they need, at our pins; no pip."""
    place = tmp_path_factory.mktemp("empty") / "answerbus"
    venv.create(place)
    installs = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--quiet"]
    options = ["--no-config", "--system-certs", "--only-binary", ":all:", "--find-links", str(dist)]
    pins = ["--constraint", str(ROOT / "constraints.txt")]
    wanted = ["answerbus[client]", "answerbus-services[otlp]"]
    run(*installs, "--python", str(place / "bin" / "python"), *options, *pins, *wanted)
    return place


def version_of(source: Path) -> str:
    document = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))
    return str(document["project"]["version"])


def test_both_distributions_have_one_version_which_all_that_is_delivered_names() -> None:
    version = version_of(SERVICES)
    services = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    dockerfile = (ROOT / "infra/Dockerfile").read_text(encoding="utf-8")

    assert version_of(CONTRACTS) == version
    assert f"answerbus[client]=={version}" in services["dependencies"]
    assert f'org.opencontainers.image.version="{version}"' in dockerfile


def test_wheels_and_sdists_are_what_an_index_takes(dist: Path) -> None:
    version = version_of(SERVICES)
    names = sorted(file.name for file in dist.iterdir())

    assert names == [
        f"answerbus-{version}-py3-none-any.whl",
        f"answerbus-{version}.tar.gz",
        f"answerbus_services-{version}-py3-none-any.whl",
        f"answerbus_services-{version}.tar.gz",
    ]
    completed = run(sys.executable, "-m", "twine", "check", "--strict", *map(str, dist.iterdir()))
    assert completed.count("PASSED") == 4


def test_a_wheel_has_what_its_sdist_has_and_nothing_of_tests_and_tools(dist: Path) -> None:
    for wheel in dist.glob("*.whl"):
        packages = {"answerbus"} if wheel.name.startswith("answerbus-") else {"services"}
        (sdist,) = dist.glob(re.sub(r"-py3.*", ".tar.gz", wheel.name))
        with ZipFile(wheel) as built, tarfile.open(sdist) as source:
            names = {name for name in built.namelist() if ".dist-info/" not in name}
            inside = {name.partition("/")[2] for name in source.getnames()}
        assert {name.partition("/")[0] for name in names} == packages
        assert names <= inside
        tree = ROOT / "contracts" if packages == {"answerbus"} else ROOT
        tracked = run("git", "-C", str(tree), "ls-files", *packages).split()
        assert {name for name in tracked if (tree / name).is_file()} <= names


@INSTALLED
def test_they_run_where_nothing_else_is(environment: Path) -> None:
    completed = run(str(environment / "bin" / "answerbus"), "--help")
    assert "worker" in completed
    run(str(environment / "bin" / "python"), "-I", "-c", IMPORTS)
    pip("--python", str(environment / "bin" / "python"), "check")
    assert not list(environment.glob("lib/*/site-packages/pip*"))


@INSTALLED
def test_the_image_stays_small(environment: Path) -> None:
    sizes = [file.lstat().st_size for file in environment.rglob("*") if not file.is_dir()]

    assert sum(sizes) < ENVIRONMENT_BYTES_MAX


@INSTALLED
def test_the_bill_of_materials_names_each_part_and_its_version(
    environment: Path, tmp_path: Path
) -> None:
    """By the command of infra/Dockerfile."""
    file = tmp_path / "sbom.cdx.json"
    tool = Path(sys.executable).with_name("cyclonedx-py")
    options = ["--pyproject", str(ROOT / "pyproject.toml"), "--output-reproducible"]
    run(str(tool), "environment", *options, "--output-file", str(file), str(environment))
    listed = pip("--python", str(environment / "bin" / "python"), "list", "--format", "json")

    bill = json.loads(file.read_text(encoding="utf-8"))
    named = {(one["name"], one["version"]) for one in bill["components"]}
    own = bill["metadata"]["component"]
    assert bill["bomFormat"] == "CycloneDX"
    assert (own["name"], own["version"]) == ("answerbus-services", version_of(SERVICES))
    assert {(entry["name"], entry["version"]) for entry in json.loads(listed)} <= named | {
        (own["name"], own["version"])
    }
