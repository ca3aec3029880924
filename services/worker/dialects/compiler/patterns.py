"""Patterns in a form that a provider reads as the validator does, or none at all."""

import re
from collections.abc import Iterator
from functools import lru_cache

COUNT_MAX = 1_000  # of repetitions: larger ones would grow a grammar beyond its limits

# What all engines mean the same by: literals, plain classes, groups, alternatives and counts.
_TOKEN = re.compile(
    r"(?P<open>\((?:\?:|(?!\?)))|(?P<close>\))|(?P<either>\|)"
    r"|\\[dws.+*?()\[\]{}|/^$\\-]"
    r"|\[\^?(?:[^\[\]\\]|\\[dws.+*?()\[\]{}|/^$\\-])+\]"
    r"|\{\d+(?:,\d*)?\}|[^\\()|\[\]{}^$]"
)
_PIECE = re.compile(
    r"(?P<open>\(\?:|\((?!\?))|(?P<close>\))|(?P<either>\|)"
    r"|(?P<count>[*+?]|\{(?P<least>\d+)(?:,(?P<most>\d*))?\})"
    r"|\[(?!\^)(?P<listed>(?:[^\[\]\\]|\\.)+)\]|\\(?P<escaped>.)|(?P<plain>[^\\()|\[\]{}^$.*+?])"
)
_LISTED = re.compile(r"(?P<first>\\.|[^\\])-(?P<last>\\.|[^\\])|\\(?P<escaped>.)|(?P<plain>[^\\])")
_SHORT = {"d": "0-9", "w": "0-9A-Za-z_"}
_SPECIAL = frozenset(r"^$.[]()|{}*+?")
_ESCAPABLE = _SPECIAL | {"/", "-"}
# Text of an answer is inside JSON, where two of these would have to be written in another way.
_CHARACTERS = frozenset(map(chr, range(0x20, 0x7F))) - frozenset('"\\')
_MAYBE = "{0,1}"  # xgrammar takes part of a group for the whole where `?` is behind it
_KNOWN_MAX = 4_096  # patterns; a schema may name the same one often


def portable(pattern: str) -> str | None:
    """A pattern that means the same to every engine, be it searched for or matched whole.

    So it is anchored at both ends, and all its alternatives are in groups.
    """
    depth = 0
    for token in _tokens(_TOKEN, pattern):
        if token is None:
            return None
        depth += (token["open"] is not None) - (token["close"] is not None)
        if depth < 0 or (depth == 0 and token["either"]):
            return None
    return pattern if depth == 0 else None


@lru_cache(_KNOWN_MAX)
def spelled_out(pattern: str, count_max: int = COUNT_MAX) -> str | None:
    """The same pattern in literals, lists of characters, groups and counts, as grammars have them.

    None where an answer that matches may need a character that JSON writes in another way, and
    where something is repeated more often than `count_max`.
    """
    depth, before, written = 0, "start", ""
    for piece in _tokens(_PIECE, pattern):
        kind = "" if piece is None else (piece.lastgroup or "")
        text = None if piece is None else _spelled(piece, count_max)
        if text is None or not _may_follow(before, kind, depth):
            return None
        depth += (kind == "open") - (kind == "close")
        written += text
        before = kind
    return f"^{written}$" if depth == 0 and before not in ("open", "either") else None


def _tokens(token: re.Pattern[str], pattern: str) -> Iterator[re.Match[str] | None]:
    """The pattern between `^` and `$`; ends with None where there is anything else."""
    if len(pattern) < 2 or pattern[0] != "^" or pattern[-1] != "$":
        yield None
        return
    position, end = 1, len(pattern) - 1
    while position < end:
        found = token.match(pattern, position, end)
        yield found
        if found is None:
            return
        position = found.end()


def _may_follow(before: str, kind: str, depth: int) -> bool:
    """Whether a piece of this kind makes sense here: no empty alternative, no count of nothing."""
    nothing = before in ("start", "open", "either")
    match kind:
        case "count":
            return not nothing and before != "count"
        case "either" | "close":
            return not nothing and depth > 0
        case _:
            return True


def _spelled(piece: re.Match[str], count_max: int) -> str | None:
    match piece.lastgroup:
        case "open":
            return "("
        case "close" | "either":
            return piece[0]
        case "count":
            if piece[0] == "?":
                return _MAYBE
            counts = [int(piece[name]) for name in ("least", "most") if piece[name]]
            return piece[0] if all(1 <= count <= count_max for count in counts[-1:]) else None
        case "listed":
            return _list(piece["listed"])
        case "escaped" if piece["escaped"] in _SHORT:
            return f"[{_SHORT[piece['escaped']]}]"
        case _:
            character = _one(piece["plain"] or f"\\{piece['escaped']}")
            return f"\\{character}" if character in _SPECIAL else character


def _one(written: str) -> str | None:
    """The character that is written like this, alone or behind a backslash, if it may be."""
    character = written[-1]
    may_be = character in _CHARACTERS and (len(written) == 1 or character in _ESCAPABLE)
    return character if may_be else None


def _list(text: str) -> str | None:
    """A list of characters with nothing in it that could be read in two ways."""
    ranges, single = "", set[str]()
    for found in _LISTED.finditer(text):
        first, last, escaped = found["first"], found["last"], found["escaped"]
        if escaped in _SHORT:
            ranges += _SHORT[escaped].removesuffix("_")
            single |= {*_SHORT[escaped]} & {"_"}
        elif first is not None:
            between = _between(_one(first), _one(last))
            if between is None:
                return None
            is_plain = found[0][0].isalnum() and found[0][-1].isalnum()
            ranges += found[0] if is_plain else ""
            single |= set() if is_plain else between  # its ends may be marks
        else:
            one = _one(found[0])
            if one is None:
                return None
            single.add(one)
    plain = "".join(sorted(single - set("^-[]")))
    brackets = "".join(f"\\{bracket}" for bracket in "[]" if bracket in single)
    listed = ranges + brackets + plain + "".join(mark for mark in "^-" if mark in single)
    return None if listed.startswith("^") else f"[{listed}]"


def _between(first: str | None, last: str | None) -> set[str] | None:
    """The characters from one to another; None where one may not be written as it is."""
    if first is None or last is None or first > last:
        return None
    between = {character for character in _CHARACTERS if first <= character <= last}
    return between if len(between) == ord(last) - ord(first) + 1 else None


# Formats, for grammars that do not know them or take 31 November for a date.
_SHORT_MONTH = "(04|06|09|11)-(0[1-9]|[12][0-9]|30)"
_LONG_MONTH = "(01|03|05|07|08|10|12)-(0[1-9]|[12][0-9]|3[01])"
_FEBRUARY = "02-(0[1-9]|1[0-9]|2[0-8])"
_LEAP_YEAR = "([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)"
_DATE = f"([0-9]{{4}}-({_LONG_MONTH}|{_SHORT_MONTH}|{_FEBRUARY})|{_LEAP_YEAR}-02-29)"
_CLOCK = "([01][0-9]|2[0-3]):[0-5][0-9]"
_PART = rf"(\.[0-9]+){_MAYBE}"
_LEAP_SECOND = rf"23:59:60{_PART}([Zz]|[+-]00:00)"  # elsewhere it comes at other hours
_TIME = rf"({_CLOCK}:[0-5][0-9]{_PART}([Zz]|[+-]{_CLOCK})|{_LEAP_SECOND})"
_BYTE = f"(25[0-5]|2[0-4][0-9]|1[0-9]{{2}}|[1-9]{_MAYBE}[0-9])"

FORMAT_PATTERNS = {
    "date": f"^{_DATE}$",
    "date-time": f"^{_DATE}[Tt]{_TIME}$",
    "time": f"^{_TIME}$",
    "ipv4": rf"^({_BYTE}\.){{3}}{_BYTE}$",
}
