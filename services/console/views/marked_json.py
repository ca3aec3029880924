"""JSON in lines, with problems marked at their places; pure."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from pydantic import JsonValue

from services.text.escaping import plain_json

LINES_MAX = 1_000  # of one document
COMPARED_LINES_MAX = 400  # more take too long to compare
AROUND = 8  # lines before and after a mark that are shown of a schema
_INDENT = "  "
LineKind = Literal["", "marked", "rule", "fault", "more", "less", "gap"]


@dataclass(frozen=True, slots=True)
class CodeLine:
    """One line, and what it is: marked, said of the one before, added, removed, or left out."""

    text: str
    kind: LineKind = ""


@dataclass(frozen=True, slots=True)
class _Placed:
    text: str
    path: str | None  # None for the end of an array or object


def marked_json(value: JsonValue, problems: Iterable[tuple[str, str]]) -> list[CodeLine]:
    """The document; `problems` are paths with what is wrong there, said below the line.

    What is missing is marked at what it is missing from.
    """
    lines = _lines(value)
    problem_texts = defaultdict[int, list[str]](list)
    for path, text in problems:
        problem_texts[_line_of(lines, path)].append(text)
    found = []
    for number, line in enumerate(lines[:LINES_MAX]):
        found.append(CodeLine(line.text, "marked" if number in problem_texts else ""))
        found += [CodeLine(text, "fault") for text in problem_texts.get(number, ())]
    return [*found, *_left_out(len(lines) - LINES_MAX)]


def schema_around(schema: JsonValue, paths: Iterable[str]) -> list[CodeLine]:
    """A schema, with those of its rules marked; what is far from all of them is left out."""
    lines = _lines(schema)
    places = {_line_of(lines, path) for path in paths}
    marks = places - {0} or places  # all of the schema is named where nothing else is
    kept = {n for mark in marks for n in range(mark - AROUND, mark + AROUND + 1)}
    found: list[CodeLine] = []
    for number, line in enumerate(lines):
        if number in kept:
            found.append(CodeLine(line.text, "rule" if number in marks else ""))
        elif not found or found[-1].kind != "gap":
            found.append(CodeLine("…", "gap"))
    return found[:LINES_MAX]


def difference(before: JsonValue, after: JsonValue) -> list[CodeLine] | None:
    """What another answer has more and less; None where they are too long to compare."""
    one, other = ([line.text for line in _lines(value)] for value in (before, after))
    if max(len(one), len(other)) > COMPARED_LINES_MAX:
        return None
    found: list[CodeLine] = []
    for change, begin, end, new_begin, new_end in SequenceMatcher(
        None, one, other, autojunk=False
    ).get_opcodes():
        if change == "equal":
            found += _equal(one[begin:end])
            continue
        found += [CodeLine(f"- {text}", "less") for text in one[begin:end]]
        found += [CodeLine(f"+ {text}", "more") for text in other[new_begin:new_end]]
    return found


def _equal(texts: Sequence[str]) -> list[CodeLine]:
    """Equal lines, of which only the first and last say where one is."""
    if len(texts) <= 2 * AROUND:
        return [CodeLine(f"  {text}") for text in texts]
    ends = [*texts[: AROUND // 2], "…", *texts[-AROUND // 2 :]]
    return [CodeLine(f"  {text}", "gap" if text == "…" else "") for text in ends]


def _lines(value: JsonValue) -> list[_Placed]:
    return list(_written(value, "", 0, "", ""))


def _written(value: JsonValue, path: str, depth: int, name: str, end: str) -> Iterator[_Placed]:
    """As `json.dumps` with an indent writes it, each line with the path of what begins there."""
    lead = _INDENT * depth + name
    if isinstance(value, dict) and value:
        yield _Placed(f"{lead}{{", path)
        for n, (key, member) in enumerate(value.items(), start=1):
            inner = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
            comma = "," if n < len(value) else ""
            yield from _written(member, inner, depth + 1, f"{_text(key)}: ", comma)
        yield _Placed(f"{_INDENT * depth}}}{end}", None)
    elif isinstance(value, list) and value:
        yield _Placed(f"{lead}[", path)
        for n, item in enumerate(value):
            comma = "," if n < len(value) - 1 else ""
            yield from _written(item, f"{path}/{n}", depth + 1, "", comma)
        yield _Placed(f"{_INDENT * depth}]{end}", None)
    else:
        yield _Placed(f"{lead}{_text(value)}{end}", path)


def _text(value: JsonValue) -> str:
    return plain_json(json.dumps(value, ensure_ascii=False))


def _line_of(lines: Sequence[_Placed], path: str) -> int:
    """The line of what stands there, or of the nearest that holds it."""
    numbers = {line.path: number for number, line in reversed(list(enumerate(lines)))}
    while path and path not in numbers:
        path = path.rpartition("/")[0]
    return numbers.get(path, 0)


def _left_out(count: int) -> list[CodeLine]:
    return [CodeLine(f"… {count:,} more lines", "gap")] if count > 0 else []
