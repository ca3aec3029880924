"""The glossary knows the words that classes are named by."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_BOLD = re.compile(r"\*\*([^*]+)\*\*")
_IN_BRACKETS = re.compile(r"\(([^)]*)\)")


def glossary() -> set[str]:
    """Each word of each term, in the singular and in lower case."""
    lines = (ROOT / "docs/glossary.md").read_text(encoding="utf-8").splitlines()
    terms = [
        part
        for line in lines
        if line.startswith("- **")
        for part in (*_BOLD.findall(line), *_IN_BRACKETS.findall(line.split(":", 1)[0]))
    ]
    return {singular(word) for term in terms for word in re.findall(r"\w+", term)}


def singular(word: str) -> str:
    for ending, other in (("sses", "ss"), ("ies", "y"), ("ss", "ss"), ("us", "us"), ("s", "")):
        if word.lower().endswith(ending):
            return word.lower()[: -len(ending)] + other
    return word.lower()


def head_nouns() -> Iterator[tuple[str, str]]:
    for root in ("contracts/answerbus", "services"):
        for path in sorted((ROOT / root).rglob("*.py")):
            for node in ast.parse(path.read_text(encoding="utf-8"), str(path)).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    yield node.name, re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]*", node.name)[-1]


KNOWN = glossary()


@pytest.mark.parametrize(("name", "noun"), sorted(set(head_nouns())))
def test_a_class_is_named_by_a_word_of_the_glossary(name: str, noun: str) -> None:
    assert singular(noun) in KNOWN, f"{name}: docs/glossary.md has no {noun!r}"


def test_each_term_stands_once() -> None:
    text = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    first = [line.split("**")[1].lower() for line in text.splitlines() if line.startswith("- **")]

    assert sorted(set(first)) == sorted(first)


def test_a_word_that_it_does_not_have_is_found() -> None:
    assert singular("Soundings") not in KNOWN
    assert singular("Glimpse") not in KNOWN
