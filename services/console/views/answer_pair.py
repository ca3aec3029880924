"""Two answers of a workflow beside each other, with the lines in which they differ; pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from answerbus.outcome import Result, UnvalidatedResult
from services.console.views.marked_json import CodeLine, marked_json, side_by_side

OFFERED_MAX = 200  # answers to choose from: the newest


@dataclass(frozen=True, slots=True)
class AnswerPair:
    """`offered` are the requests with an answer, the oldest first; `differ` is None if too long."""

    offered: Sequence[str]
    left: str
    right: str
    lines: tuple[Sequence[CodeLine], Sequence[CodeLine]]
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
    lines = side_by_side(answers[one], answers[other])
    if lines is None:
        whole = (marked_json(answers[one], ()), marked_json(answers[other], ()))
        return AnswerPair(names, one, other, whole, None)
    differ = any(line.kind for side in lines for line in side)
    return AnswerPair(names, one, other, lines, differ)
