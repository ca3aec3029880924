"""A file that a page names exists, as written from the root or from one of a few folders."""

import re
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_file_that_a_page_names_exists(page: Path) -> None:
    starts = [page.parent, *(ROOT / folder for folder in FROM)]
    missing = {path for path in named(page) if not any((start / path).exists() for start in starts)}

    assert missing == set()


def test_pages_name_files() -> None:
    assert sum(len(named(page)) for page in PAGES) > 100


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_test_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for path, name in re.findall(r"`([\w/.-]+\.py)::(\w+)`", text):
        found = [ROOT / folder / path for folder in FROM if (ROOT / folder / path).exists()]
        assert any(f"def {name}(" in file.read_text(encoding="utf-8") for file in found), name
