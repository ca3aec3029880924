"""Pins and hashes: what is installed is pinned, and each pin has the SHA-256 of its files."""

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
LOCKED = re.compile(
    r"(?P<name>[a-z0-9-]+)==(?P<version>\S+)(?P<hashes>(?: --hash=sha256:[0-9a-f]{64})+)"
)
OURS = {"answerbus", "answerbus-services"}


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines)
    return {canonicalize_name(name): version for name, version in pairs}


def locked() -> Iterator[re.Match[str]]:
    """The entries of the lock; each line of it belongs to one."""
    whole = LOCK.replace(" \\\n   ", "")
    for line in whole.splitlines():
        if not line.startswith("#"):
            found = LOCKED.fullmatch(line)
            assert found, line
            yield found


def test_each_pin_has_hashes_and_nothing_else_has() -> None:
    """`make lock` writes them anew."""
    found = {entry["name"]: entry["version"] for entry in locked()}

    assert found == pins()


def test_the_lock_names_no_place_to_fetch_from() -> None:
    """Whose registry is asked is each user's own matter; what comes from it is not."""
    assert not re.search(r"://|--(extra-)?index|--find-links|--trusted|@", LOCK)


def needed() -> Iterator[Requirement]:
    """What both distributions need, with all extras, and what that needs in turn."""
    waiting = [("answerbus", frozenset({"client"})), ("answerbus-services", frozenset({"dev"}))]
    seen = set()
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        for text in requires(name) or ():
            one = Requirement(text)
            if one.marker is None or any(
                one.marker.evaluate({"extra": extra}) for extra in (extras or {""})
            ):
                yield one
                waiting.append((canonicalize_name(one.name), frozenset(one.extras)))


def test_everything_that_is_needed_is_pinned() -> None:
    known = pins()
    for one in needed():
        name = canonicalize_name(one.name)
        if name not in OURS:
            assert name in known, f"{name} has no pin"
            assert one.specifier.contains(known[name], prereleases=True), one


def test_the_environment_is_made_of_files_with_these_hashes() -> None:
    """No step fetches anything beside them; ours are built without fetching a builder."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    installs = re.findall(r"^\t@\$\(PIP\) install (.*)$", makefile, re.MULTILINE)

    assert installs[0].startswith("--require-hashes --no-deps --requirement requirements.lock")
    assert installs[1].startswith("--no-deps --no-build-isolation --editable")
    assert "pip install" not in makefile
    assert len(installs) == 2


def test_the_images_are_made_of_files_with_these_hashes() -> None:
    dockerfile = (ROOT / "infra/Dockerfile").read_text(encoding="utf-8")

    assert "pip download --require-hashes --no-deps" in dockerfile
    assert dockerfile.count("pip install") == dockerfile.count("pip install --no-index") == 2


@pytest.mark.parametrize("folder", [ROOT, ROOT / "contracts"])
def test_each_distribution_has_its_licence(folder: Path) -> None:
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = (folder / "LICENSE").read_text(encoding="utf-8")

    assert (project["license"], project["license-files"]) == ("Apache-2.0", ["LICENSE"])
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert text == (ROOT / "LICENSE").read_text(encoding="utf-8")
