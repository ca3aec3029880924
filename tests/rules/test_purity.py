"""What calls itself pure is held to it: by the import linter, and by what it imports in turn."""

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import grimp

from tests.rules.source import ROOT

FOLDERS = {"answerbus": ROOT / "contracts/answerbus", "services": ROOT / "services"}
PURE = "Pure "  # how the names of the contracts on purity begin
# What a pure module may import though that imports more: settings are read elsewhere and handed
# over, of the client only the types of records are used, and a package may offer what is not pure.
MAY_IMPORT = ("answerbus.client", "answerbus.tools.call", "services.settings")


@cache
def contracts() -> list[dict[str, Any]]:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found = config["tool"]["importlinter"]["contracts"]
    return [contract for contract in found if contract["name"].startswith(PURE)]


def modules() -> dict[str, Path]:
    found = {}
    for root, folder in FOLDERS.items():
        for path in folder.rglob("*.py"):
            parts = path.relative_to(folder).with_suffix("").parts
            found[".".join((root, *(part for part in parts if part != "__init__")))] = path
    return found


@cache
def is_covered(module: str) -> bool:
    """Whether a contract on purity has `module` among its sources, itself or by its package."""
    for contract in contracts():
        below = "" if contract.get("as_packages") is False else r"(\..+)?"
        for source in contract["source_modules"]:
            stars = re.escape(source).replace(r"\*\*", ".+").replace(r"\*", r"[^.]+")
            if re.fullmatch(stars + below, module):
                return True
    return False


MODULES = modules()
# By the text of the docstring, since to parse all modules would delay each start of pytest.
DOCSTRING = re.compile(r'\s*r?"""(.*?)"""', re.DOTALL)
CALLED_PURE = sorted(
    name
    for name, path in MODULES.items()
    if (found := DOCSTRING.match(path.read_text(encoding="utf-8")))
    and re.search(r"\bpure\b", found[1], re.IGNORECASE)
)


@cache
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("answerbus", "services", include_external_packages=True)


def reached(module: str) -> Iterator[tuple[str, str]]:
    """Which modules of ours, reached from `module`, import which packages of others."""
    waiting, seen = [module], {module}
    while waiting:
        current = waiting.pop()
        for found in graph().find_modules_directly_imported_by(current):
            if found not in MODULES:
                yield current, found
            elif found not in seen and not found.startswith(MAY_IMPORT):
                seen.add(found)
                waiting.append(found)


def test_what_calls_itself_pure_is_in_a_contract() -> None:
    # The package that only holds the pure specifications speaks of them, and does I/O itself.
    speaks_of_it = {"services.worker.adapters.providers"}

    assert len(CALLED_PURE) > 50
    assert [name for name in CALLED_PURE if not is_covered(name)] in ([], sorted(speaks_of_it))


def test_purity_goes_by_package() -> None:
    """A module is named itself only where no folder has it, or where it is among folders."""
    named = [
        MODULES[source]
        for contract in contracts()
        for source in contract["source_modules"]
        if "*" not in source and MODULES[source].name != "__init__.py"
    ]

    for path in named:
        beside = {other.name for other in path.parent.glob("*.py")} - {"__init__.py"}
        assert path.parent == ROOT / "services" or beside == {path.name}


def test_what_is_pure_imports_nothing_in_turn_that_is_not() -> None:
    impure = {name for contract in contracts() for name in contract["forbidden_modules"]}
    allowed = {
        tuple(pair.split(" -> ")) for c in contracts() for pair in c.get("ignore_imports", [])
    }
    pure = [name for name in MODULES if is_covered(name)]
    found = {
        (ours, theirs)
        for module in pure
        for ours, theirs in reached(module)
        if theirs.split(".")[0] in impure and (ours, theirs) not in allowed
    }

    assert len(pure) > 100
    assert found <= {(ours, "urllib") for ours in MODULES if ".apis." in ours}
