"""Sentences made by chance from a grammar in llama.cpp's notation (GBNF)."""

import math
import random
import re
from dataclasses import dataclass

REPEATS_MORE_MAX = 3  # beyond what a rule asks for
ROOM = 12  # rules inside one another, as far as the grammar lets one stop there
_TOKEN = re.compile(
    r"\s+|(?P<text>\"(?:[^\"\\]|\\.)*\")|(?P<set>\[(?:[^\]\\]|\\.)*\])|(?P<name>[a-zA-Z0-9_-]+)"
    r"|(?P<count>[*+?]|\{\d+(?:,\d*)?\})|(?P<mark>[()|.])"
)
_CHARACTER = re.compile(
    r"\\(?:x(?P<two>..)|u(?P<four>.{4})|U(?P<eight>.{8})|(?P<escaped>.))|(?P<plain>.)", re.DOTALL
)
_NAMED = {"n": "\n", "r": "\r", "t": "\t"}
# What a list of forbidden characters is drawn from. Raw control characters and backslashes are left
# out: llama.cpp lets names of further members have them, and then an answer may be malformed, or
# spell a name out that such a member must not have.
_POOL = [*map(chr, [*range(0x20, 0x7F), *range(0xA0, 0x100)]), "日", "\u2028", "😀"]


@dataclass(frozen=True)
class _OneOf:
    """One character of several."""

    characters: tuple[str, ...]


@dataclass(frozen=True)
class _Name:
    """What the rule of this name says."""

    name: str


@dataclass(frozen=True)
class _Either:
    ways: tuple["_Part", ...]


@dataclass(frozen=True)
class _Row:
    parts: tuple["_Part", ...]


@dataclass(frozen=True)
class _Repeat:
    part: "_Part"
    least: int
    most: float


_Part = str | _OneOf | _Name | _Either | _Row | _Repeat


class Grammar:
    """The rules, and how deep one must go at least to end each."""

    def __init__(self, text: str) -> None:
        """One rule a line, as llama.cpp writes them."""
        named = (line.partition("::=") for line in text.split("\n") if "::=" in line)
        self._rules = {name.strip(): _Parser(body).either() for name, _, body in named}
        self._depths = dict.fromkeys(self._rules, math.inf)
        changed = True
        while changed:
            depths = {name: 1 + self._depth(part) for name, part in self._rules.items()}
            changed, self._depths = depths != self._depths, depths

    def sentence(self, rule: str, chance: random.Random) -> str:
        """One text that the rule allows."""
        return self._say(_Name(rule), chance, ROOM)

    def _depth(self, part: _Part) -> float:
        match part:
            case str() | _OneOf():
                return 0
            case _Name():
                return self._depths[part.name]
            case _Either():
                return min(map(self._depth, part.ways))
            case _Row():
                return max(map(self._depth, part.parts), default=0)
            case _Repeat():
                return self._depth(part.part) if part.least else 0

    def _say(self, part: _Part, chance: random.Random, room: float) -> str:
        match part:
            case str():
                return part
            case _OneOf():
                return chance.choice(part.characters)
            case _Name():
                return self._say(self._rules[part.name], chance, room - 1)
            case _Either():
                least = min(map(self._depth, part.ways))
                fitting = [w for w in part.ways if self._depth(w) <= max(room, least)]
                return self._say(chance.choice(fitting), chance, room)
            case _Row():
                return "".join(self._say(inner, chance, room) for inner in part.parts)
            case _Repeat():
                fits = self._depth(part.part) < room
                more = chance.randint(0, REPEATS_MORE_MAX) if fits else 0
                count = int(min(part.least + more, part.most))
                return "".join(self._say(part.part, chance, room - 1) for _ in range(count))


class _Parser:
    def __init__(self, text: str) -> None:
        self._left: list[tuple[str, str]] = []
        position = 0
        while position < len(text):
            token = _TOKEN.match(text, position)
            assert token is not None, text[position:]
            position = token.end()
            if token.lastgroup is not None:
                self._left.append((token.lastgroup, token[0]))
        self._left.reverse()

    def either(self) -> _Part:
        ways = [self._row()]
        while self._takes("|"):
            ways.append(self._row())
        return ways[0] if len(ways) == 1 else _Either(tuple(ways))

    def _takes(self, mark: str) -> bool:
        found = bool(self._left) and self._left[-1] == ("mark", mark)
        return found and bool(self._left.pop())

    def _row(self) -> _Part:
        parts: list[_Part] = []
        while self._left and self._left[-1] not in (("mark", "|"), ("mark", ")")):
            part = self._one()
            while self._left and self._left[-1][0] == "count":
                part = _repeated(part, self._left.pop()[1])
            parts.append(part)
        return _Row(tuple(parts))

    def _one(self) -> _Part:
        kind, text = self._left.pop()
        match kind, text:
            case "text", _:
                return "".join(map(_character, _CHARACTER.finditer(text[1:-1])))
            case "set", _:
                return _OneOf(_set(text[1:-1]))
            case "name", _:
                return _Name(text)
            case _, "(":
                inner = self.either()
                assert self._takes(")")
                return inner
            case _:
                return _OneOf(tuple(_POOL))


def _repeated(part: _Part, count: str) -> _Part:
    if count in "*+?":
        return _Repeat(part, int(count == "+"), 1 if count == "?" else math.inf)
    least, comma, most = count[1:-1].partition(",")
    return _Repeat(part, int(least), int(most or "0") or (math.inf if comma else int(least)))


def _character(found: re.Match[str]) -> str:
    code = found["two"] or found["four"] or found["eight"]
    if code:
        return chr(int(code, 16))
    return _NAMED.get(found["escaped"], found["escaped"]) if found["escaped"] else found["plain"]


def _set(text: str) -> tuple[str, ...]:
    found = list(_CHARACTER.finditer(text.removeprefix("^")))
    listed: set[str] = set()
    while found:
        first = last = _character(found.pop(0))
        if len(found) > 1 and found[0][0] == "-":
            last = _character(found[1])
            del found[:2]
        listed |= set(map(chr, range(ord(first), ord(last) + 1)))
    if not text.startswith("^"):
        return tuple(sorted(listed))
    return tuple(c for c in _POOL if c not in listed and c != "\\")
