"""The glossary defines each of its terms once."""

from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_each_term_stands_once() -> None:
    text = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    first = [line.split("**")[1].lower() for line in text.splitlines() if line.startswith("- **")]

    assert sorted(set(first)) == sorted(first)
