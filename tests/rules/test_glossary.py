"""The glossary is short, and no word has two meanings: neither there nor as the name of a class."""

import ast
import re
from collections import defaultdict

from tests.rules.source import ROOT, tree

TERMS_MAX = 60
TERM = re.compile(r"^- \*\*(.+?)\*\*: (.+)$")
SECOND_MEANING = re.compile(r"[;.] (?:also|as|for|in|in general|of|on)\b", re.IGNORECASE)
# One thing, said at each of its borders: as event, as reply of a provider, as line of a script; as
# a model asks for it, as a server gets it, as a run keeps it.
ONE_THING = {
    *("Answered", "Refused", "Rejected", "Throttled", "TimedOut", "Truncated", "Unavailable"),
    *("InvalidArgs", "OpenRuns", "ToolCall", "Unreadable"),
}


def terms() -> list[tuple[str, str]]:
    text = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("- ")]
    found = [match.groups() for line in lines if (match := TERM.match(line))]
    assert len(found) == len(lines)
    return [(term, meaning) for term, meaning in found]


def test_a_newcomer_can_learn_it() -> None:
    assert 0 < len(terms()) <= TERMS_MAX


def test_each_term_is_defined_once_and_in_one_sense() -> None:
    names = [term.lower() for term, _ in terms()]

    assert sorted(set(names)) == sorted(names)
    assert [term for term, meaning in terms() if SECOND_MEANING.search(meaning)] == []


def test_no_name_of_a_class_gets_a_second_meaning() -> None:
    """A class of a name that another module uses already needs a name of its own."""
    places: dict[str, set[str]] = defaultdict(set)
    for folder in ("contracts/answerbus", "services"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in tree(path).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].add(path.relative_to(ROOT).as_posix())
    double = {name: found for name, found in places.items() if len(found) > 1}
    new = {name: found for name, found in double.items() if name not in ONE_THING}

    assert new == {}
