"""Writes the parts of requirements.lock: pip itself, `make up` and `make demo`, and the image.

Run by `make lock` where everything is installed: what a package needs is read from there.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from types import MappingProxyType

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOCK, RUN_LOCK = Path("requirements.lock"), Path("requirements-run.lock")
IMAGE_LOCK, PIP_LOCK = Path("requirements-image.lock"), Path("requirements-pip.lock")
OURS = {"answerbus": Path("contracts"), "answerbus-services": Path()}
_CONTRACTS = ("answerbus", frozenset({"client"}))
PARTS: Mapping[Path, Sequence[tuple[str, frozenset[str]]]] = MappingProxyType(
    {
        PIP_LOCK: [("pip", frozenset())],
        RUN_LOCK: [_CONTRACTS, ("answerbus-services", frozenset({"demo"}))],
        IMAGE_LOCK: [_CONTRACTS, ("answerbus-services", frozenset({"otlp", "sbom"}))],
    }
)
HEAD = "# A part of requirements.lock: written by `make lock`.\n"
_ENTRY = re.compile(r"^([A-Za-z0-9][\w.-]*)==.*?(?=^[A-Za-z0-9]|\Z)", re.MULTILINE | re.DOTALL)


def part_of(lock: str, part: Path) -> str:
    """The entries of a lock that belong to this part, as they are."""
    names = needed(part)
    entries = (entry for entry in _ENTRY.finditer(lock) if canonicalize_name(entry[1]) in names)
    return HEAD + "".join(entry[0] for entry in entries)


def needed(part: Path) -> frozenset[str]:
    """The distributions of this part with all that they need in turn, on any platform."""
    waiting = [*PARTS[part]]
    seen = set()
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        wanted = map(Requirement, _wanted_by(name, extras))
        waiting.extend(
            (canonicalize_name(one.name), frozenset(one.extras))
            for one in wanted
            if _is_meant(one, extras)
        )
    return frozenset(name for name, _ in seen)


def _is_meant(one: Requirement, extras: frozenset[str]) -> bool:
    """Whether it is wanted with these extras; markers of platforms are pip's business."""
    if one.marker is None or "extra" not in str(one.marker):
        return True
    return any(one.marker.evaluate({"extra": extra}) for extra in extras)


def _wanted_by(name: str, extras: frozenset[str]) -> Iterable[str]:
    if name not in OURS:
        try:
            return requires(name) or ()
        except PackageNotFoundError:  # for another platform
            return ()
    text = (OURS[name] / "pyproject.toml").read_text(encoding="utf-8")
    document = tomllib.loads(text)
    project = document["project"]
    optional = (text for extra in extras for text in project["optional-dependencies"][extra])
    return [*project["dependencies"], *optional, *document["build-system"]["requires"]]


if __name__ == "__main__":
    for part in PARTS:
        part.write_text(part_of(LOCK.read_text(encoding="utf-8"), part), encoding="utf-8")
