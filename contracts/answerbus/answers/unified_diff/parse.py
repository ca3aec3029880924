"""Unified diffs as text: a parser that refuses each line which two readers may take differently.

Names and hunks are read as `git apply` reads them. Lines end with LF alone, since CR and the other
line ends of Unicode are content, and every line must be a part of a section.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated

from answerbus import limits
from answerbus.answers.unified_diff.headers import NOT_A_UNIFIED_DIFF, section_paths, take_headers
from answerbus.values import Checked, Rule, within

BINARY = Rule("binary_diff", "a diff of text, without binary patches and NUL characters")
UNSAFE_MODE = Rule(
    "unsafe_mode", "regular files: the modes 100644 and 100755 alone, no links or submodules"
)
BAD_HUNK = Rule(
    "bad_hunk",
    "hunks that begin with `@@ -start,count +start,count @@`, hold exactly as many old and new "
    "lines as these counts say, and add or remove a line",
)
NO_HUNK = Rule("no_hunk", "at least one hunk of changed lines")

_HUNK = re.compile(
    r"@@ -[0-9]{1,10}(?:,([0-9]{1,10}))? \+[0-9]{1,10}(?:,([0-9]{1,10}))? @@(?: .*)?"
)
_NEEDS_NO_HUNK = {"new file mode ", "deleted file mode ", "new mode ", "rename to ", "copy to "}
_BINARY_LINE = re.compile(r"GIT binary patch|Binary files .* differ")
_MODE_LINE = re.compile(r"(?:(?:old|new|new file|deleted file) mode|index \S+) .*")
_SURPLUS_LINE = re.compile(r"(?!--- |\+\+\+ )[ +\-\\].*")
_NO_NEWLINE = "\\ No newline at end of file"
# How many old and new lines one line of a hunk stands for; editors and models strip the space of
# an empty line, and all readers allow for that.
_OLD_AND_NEW = {" ": (1, 1), "": (1, 1), "-": (1, 0), "+": (0, 1)}


@lru_cache(maxsize=4)
def named_paths(diff: str) -> frozenset[str] | Rule:
    """The paths that a diff names, or the first rule that it breaks; takes linear time.

    The last ones are known: reading an answer asks for those of its diff several times.

    Each path obeys the rules of `SandboxedRelativePath`.
    """
    if rule := within(diff, limits.DIFF_BYTES_MAX):
        return rule
    if "\0" in diff:
        return BINARY
    *lines, rest = diff.split("\n")
    if rest:
        return NOT_A_UNIFIED_DIFF
    paths: set[str] = set()
    has_hunks = False
    at = 0
    while at < len(lines):
        headers, body = take_headers(lines, at)
        end = _after_hunks(lines, body)
        if end is None:
            return BAD_HUNK
        if not headers or not _complete(headers, has_hunks=end > body):
            return _rule_broken_by(lines[end]) if end < len(lines) else NOT_A_UNIFIED_DIFF
        named = section_paths(headers)
        if isinstance(named, Rule):
            return named
        paths |= named
        has_hunks = has_hunks or end > body
        at = end
    return frozenset(paths) if has_hunks else NO_HUNK


def _rule_broken_by(line: str) -> Rule:
    """The rule that a line breaks by being no part of a section."""
    if _BINARY_LINE.fullmatch(line):
        return BINARY
    if _MODE_LINE.fullmatch(line):
        return UNSAFE_MODE
    return BAD_HUNK if _SURPLUS_LINE.fullmatch(line) else NOT_A_UNIFIED_DIFF


def _complete(headers: Mapping[str, str], *, has_hunks: bool) -> bool:
    """Whether a section has what its headers announce: hunks, or a change that needs none."""
    if "--- " in headers or has_hunks:
        return has_hunks and "+++ " in headers
    return bool(_NEEDS_NO_HUNK & headers.keys())


def _after_hunks(lines: Sequence[str], at: int) -> int | None:
    """The line after all hunks from `at` on; None if one of them is not as it says."""
    while at < len(lines) and lines[at].startswith("@@ "):
        end = _after_hunk(lines, at)
        if end is None:
            return None
        at = end
    return at


def _after_hunk(lines: Sequence[str], at: int) -> int | None:
    """The line after the hunk whose header stands at `at`; None if it is not as it says."""
    header = _HUNK.fullmatch(lines[at])
    if header is None:
        return None
    old, new = (int(count or "1") for count in header.groups())
    changed = False
    at += 1
    while old or new:
        counts = _OLD_AND_NEW.get(lines[at][:1]) if at < len(lines) else None
        if counts is None:
            return None
        old, new = old - counts[0], new - counts[1]
        if old < 0 or new < 0:
            return None
        changed = changed or counts != (1, 1)
        at += 1
        at += lines[at : at + 1] == [_NO_NEWLINE]
    return at if changed else None


def _rule(diff: str) -> Rule | None:
    paths = named_paths(diff)
    return paths if isinstance(paths, Rule) else None


UnifiedDiff = Annotated[str, Checked(limits.DIFF_BYTES_MAX, _rule)]
"""A unified diff of text: at least one hunk, paths below the working tree, regular files."""
