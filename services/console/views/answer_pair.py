"""Two answers of a workflow beside each other, with the lines in which they differ; pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from answerbus.outcome import Result, UnvalidatedResult
from services.console.views.marked_json import CodeLine, marked_json, side_by_side

OFFERED_MAX = 200  # answers to choose from: the newest
LinePair = tuple[Sequence[CodeLine], Sequence[CodeLine]]


@dataclass(frozen=True, slots=True)
class AnswerPair:
    """`offered` are the requests with an answer, the oldest first; `differ` is None if too long."""

    offered: Sequence[str]
    left: str
    right: str
    lines: LinePair
    differ: bool | None


def answers_of(events: Iterable[object]) -> Mapping[str, JsonValue]:
    """By request, the newest last."""
    found = dict[str, JsonValue]()
    for event in events:
        match event:
            case Result():
                found[event.request_id] = event.answer
            case UnvalidatedResult():
                found[event.request_id] = event.unvalidated_answer
            case _:
                pass
    return dict(list(found.items())[-OFFERED_MAX:])


def answer_pair(
    answers: Mapping[str, JsonValue], left: str | None, right: str | None
) -> AnswerPair | None:
    """Those that are named, else the two newest; None where there are no two."""
    names = list(answers)
    if len(names) < 2:
        return None
    one = left if left is not None and left in answers else names[-2]
    other = right if right is not None and right in answers else names[-1]
    return AnswerPair(names, one, other, *lines_beside(answers[one], answers[other]))


def lines_beside(one: JsonValue, other: JsonValue) -> tuple[LinePair, bool | None]:
    """Both with marks, and whether they differ: None where they are too long for marks."""
    lines = side_by_side(one, other)
    if lines is None:
        return (marked_json(one, ()), marked_json(other, ())), None
    return lines, any(line.kind for side in lines for line in side)
