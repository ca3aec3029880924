"""A file that a page names exists, as written from the root or from one of a few folders."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FROM = (
    "",
    "contracts/answerbus",
    "services",
    "services/worker",
    "services/worker/adapters",
    "tests",
    "tests/unit/worker",
)
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def named(page: Path) -> set[str]:
    text = page.read_text(encoding="utf-8")
    return set(re.findall(r"(?<![\w/.*-])((?:[\w.-]+/)+[\w-]+\.(?:py|md))\b", text))


def missing(page: Path) -> set[str]:
    starts = [page.parent, *(ROOT / folder for folder in FROM)]
    return {path for path in named(page) if not any((start / path).exists() for start in starts)}


def missing_tests(page: Path) -> Iterator[str]:
    for path, name in re.findall(r"`([\w/.-]+\.py)::(\w+)`", page.read_text(encoding="utf-8")):
        found = [ROOT / folder / path for folder in FROM if (ROOT / folder / path).exists()]
        if not any(f"def {name}(" in file.read_text(encoding="utf-8") for file in found):
            yield name


def test_a_file_that_a_page_names_exists() -> None:
    assert sum(len(named(page)) for page in PAGES) > 100
    assert {page.relative_to(ROOT): lost for page in PAGES if (lost := missing(page))} == {}


def test_a_test_that_a_page_names_exists() -> None:
    assert [(page.name, name) for page in PAGES for name in missing_tests(page)] == []
