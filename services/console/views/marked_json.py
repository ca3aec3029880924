"""JSON in lines, with problems marked at their places; pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from pydantic import JsonValue

from services.text.escaping import json_line

LINES_MAX = 1_000  # of one document
CHARS_MAX = 100_000  # of one document
TEXT_CHARS_MAX = 2_000  # of one text in it
COMPARED_LINES_MAX = 300  # more take too long to compare
AROUND = 8  # lines before and after a mark that are shown of a schema
_INDENT = "  "
LineKind = Literal["", "marked", "rule", "fault", "more", "less", "gap"]
_Places = Mapping[tuple[int, str], int]  # lines, by the one around them and their place there


@dataclass(frozen=True, slots=True)
class CodeLine:
    """One line, and what it is: marked, said of the one before, added, removed, or left out."""

    text: str
    kind: LineKind = ""


@dataclass(frozen=True, slots=True)
class _Line:
    """What begins or ends there; `value` is None at an end.

    `inside` is the number of the line around it, `place` its name or index there.
    """

    value: tuple[JsonValue] | None
    depth: int
    inside: int
    place: str | int
    end: str

    @property
    def text(self) -> str:
        lead, end = _INDENT * self.depth, self.end
        if self.value is None:
            return f"{lead}{end}"
        (value,) = self.value
        name = f"{_text(self.place)}: " if isinstance(self.place, str) and self.depth else ""
        if isinstance(value, dict | list) and value:
            return f"{lead}{name}{'{' if isinstance(value, dict) else '['}"
        return f"{lead}{name}{_text(value)}{end}"


def marked_json(value: JsonValue, problems: Iterable[tuple[str, str]]) -> list[CodeLine]:
    """The document; `problems` are paths with what is wrong there, said below the line.

    What is missing, or not shown, is marked at what it is missing from.
    """
    lines = list(islice(_lines(value), LINES_MAX))
    places, problem_texts = _places(lines), defaultdict[int, list[str]](list)
    for path, text in problems:
        problem_texts[_line_of(places, path)].append(text)
    found, left, shown = list[CodeLine](), CHARS_MAX, 0
    for number, line in enumerate(lines):
        text = line.text
        left -= len(text)
        if left < 0:
            break
        shown += 1
        found.append(CodeLine(text, "marked" if number in problem_texts else ""))
        found += [CodeLine(text, "fault") for text in problem_texts.get(number, ())]
    return [*found, *_left_out(_line_count(value) - shown)]


def schema_around(schema: JsonValue, paths: Iterable[str]) -> list[CodeLine]:
    """A schema, with those of its rules marked; what is far from all of them is left out."""
    lines = list(_lines(schema))
    places = _places(lines)
    named = {_line_of(places, path) for path in paths}
    marks = named - {0} or named  # all of the schema is named where nothing else is
    kept = {n for mark in marks for n in range(mark - AROUND, mark + AROUND + 1)}
    found, left = list[CodeLine](), CHARS_MAX
    for number, line in enumerate(lines):
        if number in kept and left > 0:
            found.append(CodeLine(line.text, "rule" if number in marks else ""))
            left -= len(found[-1].text)
        elif not found or found[-1].kind != "gap":
            found.append(CodeLine("…", "gap"))
    return found[:LINES_MAX]


def side_by_side(
    before: JsonValue, after: JsonValue
) -> tuple[list[CodeLine], list[CodeLine]] | None:
    """Both, each with the lines that the other lacks; None where they are too long to compare."""
    texts = _compared(before, after)
    if texts is None:
        return None
    changes = list(_changes(*texts))
    return (
        [CodeLine(text, kind) for kind, text in changes if kind != "more"],
        [CodeLine(text, kind) for kind, text in changes if kind != "less"],
    )


def difference(before: JsonValue, after: JsonValue) -> list[CodeLine] | None:
    """The difference to another answer; None where they are too long to compare."""
    texts = _compared(before, after)
    if texts is None:
        return None
    found = list[CodeLine]()
    equal = list[str]()
    for kind, text in _changes(*texts):
        if kind == "":
            equal.append(text)
            continue
        found += _equal(equal)
        equal.clear()
        found.append(CodeLine(f"{'-' if kind == 'less' else '+'} {text}", kind))
    return [*found, *_equal(equal)]


def _compared(before: JsonValue, after: JsonValue) -> tuple[list[str], list[str]] | None:
    if max(_line_count(before), _line_count(after)) > COMPARED_LINES_MAX:
        return None
    one, other = _texts(before), _texts(after)
    return None if one is None or other is None else (one, other)


def _texts(value: JsonValue) -> list[str] | None:
    """All lines; None where they have too many characters."""
    found, left = list[str](), CHARS_MAX
    for line in _lines(value):
        found.append(line.text)
        left -= len(found[-1])
        if left < 0:
            return None
    return found


def _changes(
    one: Sequence[str], other: Sequence[str]
) -> Iterator[tuple[Literal["", "less", "more"], str]]:
    """Each line, by a longest common subsequence: the work is the product of both lengths.

    (That of difflib is a higher power of them where lines are alike.)
    """
    common = [[0] * (len(other) + 1)]  # of what begins at a line of both, from the last on
    for line in reversed(one):
        below, row, right = common[-1], [0], 0
        for at, found in enumerate(reversed(other)):
            right = below[at] + 1 if line == found else max(right, below[at + 1])
            row.append(right)
        common.append(row)
    at = to = 0
    while at < len(one) and to < len(other):
        if one[at] == other[to]:
            yield "", one[at]
            at, to = at + 1, to + 1
        elif (
            common[len(one) - at - 1][len(other) - to] >= common[len(one) - at][len(other) - to - 1]
        ):
            yield "less", one[at]
            at += 1
        else:
            yield "more", other[to]
            to += 1
    yield from (("less", line) for line in one[at:])
    yield from (("more", line) for line in other[to:])


def _equal(texts: Sequence[str]) -> list[CodeLine]:
    """Equal lines; only the first and last say where one is."""
    if len(texts) <= 2 * AROUND:
        return [CodeLine(f"  {text}") for text in texts]
    ends = [*texts[: AROUND // 2], "…", *texts[-AROUND // 2 :]]
    return [CodeLine(f"  {text}", "gap" if text == "…" else "") for text in ends]


def _lines(value: JsonValue) -> Iterator[_Line]:
    """As `json.dumps` with an indent writes it."""
    number = 0
    waiting = [iter([_Line((value,), 0, 0, "", "")])]
    while waiting:
        line = next(waiting[-1], None)
        if line is None:
            waiting.pop()
            continue
        yield line
        if line.value is not None and isinstance(inner := line.value[0], dict | list) and inner:
            waiting.append(_inside(inner, line, number))
        number += 1


def _inside(
    value: dict[str, JsonValue] | list[JsonValue], line: _Line, number: int
) -> Iterator[_Line]:
    pairs: Iterable[tuple[str | int, JsonValue]]
    pairs = [*value.items()] if isinstance(value, dict) else [*enumerate(value)]
    last, depth = len(value) - 1, line.depth + 1
    for at, (place, member) in enumerate(pairs):
        yield _Line((member,), depth, number, place, "," if at < last else "")
    sign = "}" if isinstance(value, dict) else "]"
    yield _Line(None, line.depth, line.inside, line.place, f"{sign}{line.end}")


def _line_count(value: JsonValue) -> int:
    count, waiting = 0, [value]
    while waiting:
        match waiting.pop():
            case dict() as found if found:
                count += 2
                waiting.extend(found.values())
            case list() as found if found:
                count += 2
                waiting.extend(found)
            case _:
                count += 1
    return count


def _text(value: JsonValue) -> str:
    if isinstance(value, str) and len(value) > TEXT_CHARS_MAX:
        value = f"{value[:TEXT_CHARS_MAX]}…"
    return json_line(value)


def _places(lines: Sequence[_Line]) -> _Places:
    return {
        (line.inside, str(line.place)): number
        for number, line in enumerate(lines)
        if line.value is not None and number
    }


def _line_of(places: _Places, path: str) -> int:
    """The line of the value there, or of the nearest that holds it."""
    number = 0
    for token in path.split("/")[1:]:
        inner = places.get((number, token.replace("~1", "/").replace("~0", "~")))
        if inner is None:
            break
        number = inner
    return number


def _left_out(count: int) -> list[CodeLine]:
    return [CodeLine(f"… {count:,} more lines", "gap")] if count > 0 else []
