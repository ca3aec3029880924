"""Unified diffs as text: a parser that refuses each line which two readers may take differently.

Names and hunks are read as `git apply` reads them. Lines end with LF alone, since CR and the other
line ends of Unicode are content, and every line must be a part of a section.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated

from answerbus import limits
from answerbus.values import SANDBOXED_PATH, Checked, Rule, within

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
    """The line after the hunk whose header is at `at`; None if it is not as it says."""
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


NOT_A_UNIFIED_DIFF = Rule(
    "not_a_unified_diff",
    "a unified diff as git writes it and nothing before, between or after its sections: "
    "`--- a/path`, `+++ b/path`, then hunks; every line, also the last, ends with a line feed",
)
NO_PREFIX = Rule(
    "missing_prefix", "old names that begin with a/ and new names that begin with b/, or /dev/null"
)
HEADERS_DISAGREE = Rule(
    "headers_disagree",
    "headers that name the same old and new file throughout one section; below `diff --git`, "
    "/dev/null comes with `new file mode` or `deleted file mode`",
)

_NOTHING = "/dev/null"
_PREFIXES = {"--- ": "a/", "+++ ": "b/"}  # the other headers name bare paths
_PAIRS = (("--- ", "+++ "), ("rename from ", "rename to "), ("copy from ", "copy to "))
_NAMING = ("Index: ", *(key for pair in _PAIRS for key in pair))
_PLAIN = {"Index: ", "=", "--- ", "+++ "}
_MODE = "100(?:644|755)"
_HASH = "[0-9A-Za-z]{1,64}"  # models make hashes up, and a diff of text does not need them
_FORMS = {
    "Index: ": ".+",
    "=": "=*",
    "diff --git ": ".+",
    **dict.fromkeys(("old mode ", "new mode ", "new file mode ", "deleted file mode "), _MODE),
    **dict.fromkeys(("similarity index ", "dissimilarity index "), "[0-9]{1,3}%"),
    **dict.fromkeys(("rename from ", "rename to ", "copy from ", "copy to "), ".+"),
    "index ": rf"{_HASH}\.\.{_HASH}(?: {_MODE})?",
    "--- ": ".+",
    "+++ ": ".+",
}
_BY_SIGN = {
    sign: tuple((key, re.compile(form)) for key, form in _FORMS.items() if key[0] == sign)
    for sign in {key[0] for key in _FORMS}
}
_EXTENDED_RANK = 3
_RANKS = {"Index: ": 0, "=": 1, "diff --git ": 2, "--- ": 4, "+++ ": 5}
_OPENERS = ("Index: ", "diff --git ", "--- ")

_QUOTED = re.compile(r'"((?:[^"\\]|\\(?:[abtnvfr"\\]|[0-3][0-7]{2}))*+)"')
_ESCAPE = re.compile(rb'\\(?:([0-3][0-7]{2})|([abtnvfr"\\]))')
_LETTERS = {
    b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r",
    b'"': b'"', b"\\": b"\\",
}  # fmt: skip
# `git apply` ends a name at a tab, save that a date at the end of the line moves the end there.
_AFTER_NAME = re.compile(
    r"|\t(?:|.*[^0-9]|[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}(?:\.[0-9]+)?(?: [+-][0-9]{4})?)"
)


def take_headers(lines: Sequence[str], at: int) -> tuple[dict[str, str], int]:
    """The headers from line `at` on, each with what follows it, and the line after them.

    They are empty if no section begins there.
    """
    found: dict[str, str] = {}
    last = -1
    while at < len(lines):
        key = _key(lines[at])
        rank = _RANKS.get(key, _EXTENDED_RANK)
        fits = rank > last or (rank == last == _EXTENDED_RANK and key not in found)
        if key == "" or not fits or (not found and key not in _OPENERS):
            break
        found[key] = lines[at].removeprefix(key)
        last = rank
        at += 1
    return found, at


def _key(line: str) -> str:
    """The header that a line is, or nothing."""
    for key, value in _BY_SIGN.get(line[:1], ()):
        if line.startswith(key) and value.fullmatch(line, len(key)):
            return key
    return ""


def section_paths(headers: Mapping[str, str]) -> frozenset[str] | Rule:
    """The one or two paths that the headers of a section name, or the rule that they break."""
    names: dict[str, str] = {}
    for key in _NAMING:
        if key not in headers:
            continue
        name = _name(headers[key], _PREFIXES.get(key, ""))
        if isinstance(name, Rule):
            return name
        names[key] = name
    sides = _sides(headers, names)
    if isinstance(sides, Rule):
        return sides
    # Where only the `diff --git` line names them, they are still to be looked at.
    paths = [name for name in sides if name != _NOTHING]
    return next(filter(None, map(SANDBOXED_PATH.broken, paths)), frozenset(paths))


def _name(text: str, prefix: str) -> str | Rule:
    """The path that a header names, without its prefix; `/dev/null` only where prefixes are."""
    quoted = _QUOTED.match(text)
    name = _unquoted(quoted[1]) if quoted else text.partition("\t")[0]
    after = text[quoted.end() if quoted else len(name or "") :]
    ends = _AFTER_NAME.fullmatch(after) if prefix else not after
    if name is None or not ends or (text.startswith('"') and not quoted):
        return NOT_A_UNIFIED_DIFF
    if prefix and name == _NOTHING and not quoted:
        return name
    if not name.startswith(prefix):
        return NO_PREFIX
    path = name.removeprefix(prefix)
    return SANDBOXED_PATH.broken(path) or path


def _unquoted(body: str) -> str | None:
    """A name from between the quotes of a C string; None if its bytes are not UTF-8."""
    try:
        return _ESCAPE.sub(_byte, body.encode()).decode()
    except UnicodeDecodeError:
        return None


def _byte(escape: re.Match[bytes]) -> bytes:
    return bytes([int(escape[1], 8)]) if escape[1] else _LETTERS[escape[2]]


def _sides(headers: Mapping[str, str], names: Mapping[str, str]) -> tuple[str, str] | Rule:
    """The old and the new name that all headers agree on; `/dev/null` stands for no file."""
    pairs_found = [(names.get(old, ""), names.get(new, "")) for old, new in _PAIRS]
    pairs = [pair for pair in pairs_found if any(pair)] or [_sides_from_git_line(headers)]
    git_line = headers.get("diff --git ")
    if any("" in pair for pair in pairs) or (git_line is None and not headers.keys() <= _PLAIN):
        return NOT_A_UNIFIED_DIFF
    old, new = pairs[0]
    agree = (
        pairs.count(pairs[0]) == len(pairs)
        and names.get("Index: ", old) in {old, new}
        and _headers_agree_on_files(headers, old, new)
        and (git_line is None or _git_line_names(git_line, old, new))
    )
    return (old, new) if agree else HEADERS_DISAGREE


def _sides_from_git_line(headers: Mapping[str, str]) -> tuple[str, str]:
    """Both names where only the `diff --git` line has one, the same twice; else empty."""
    git_line = headers.get("diff --git ", "")
    quoted = _QUOTED.match(git_line)
    # Two equal names with one space between: the only way to part names that hold spaces.
    first = _unquoted(quoted[1]) if quoted else git_line[: len(git_line) // 2]
    name = (first or "").removeprefix("a/")
    return (
        _NOTHING if "new file mode " in headers else name,
        _NOTHING if "deleted file mode " in headers else name,
    )


def _headers_agree_on_files(headers: Mapping[str, str], old: str, new: str) -> bool:
    """Whether all headers alike say that a file is created, deleted, moved, or neither."""
    created, deleted = old == _NOTHING, new == _NOTHING
    # Without its mode line `git apply` takes `/dev/null` below `diff --git` for a file's name.
    if "diff --git " in headers and (created, deleted) != (
        "new file mode " in headers,
        "deleted file mode " in headers,
    ):
        return False
    if created or deleted:
        return created != deleted
    return old == new or not headers.keys().isdisjoint({"rename from ", "copy from "})


def _git_line_names(git_line: str, old: str, new: str) -> bool:
    """Whether the line says `a/old b/new`: compared, since bare names with spaces do not parse."""
    after = _after_name(git_line, f"a/{new if old == _NOTHING else old}")
    if after is None or not after.startswith(" "):
        return False
    return _after_name(after[1:], f"b/{old if new == _NOTHING else new}") == ""


def _after_name(text: str, name: str) -> str | None:
    """The text after `name`, bare or quoted, at its start; None if the name is not there."""
    quoted = _QUOTED.match(text)
    if quoted:
        return text[quoted.end() :] if _unquoted(quoted[1]) == name else None
    return text.removeprefix(name) if text.startswith(name) else None
