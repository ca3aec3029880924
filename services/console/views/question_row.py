"""A question that was asked twice: both answers beside each other; pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from answerbus.compared import Compared, ComparedAnswer
from services.console.views.answer_pair import lines_beside
from services.console.views.marked_json import CodeLine, marked_json


@dataclass(frozen=True, slots=True)
class QuestionSide:
    """One of the two calls; `lines` are of its answer, if it has one."""

    head: str
    call: ComparedAnswer
    lines: Sequence[CodeLine]

    @property
    def tokens(self) -> int | None:
        """Input and output."""
        usage = self.call.usage
        if usage.input_tokens is None or usage.output_tokens is None:
            return None
        return usage.input_tokens + usage.output_tokens


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """`is_too_long`: its two answers cannot be compared line by line."""

    compared: Compared
    sides: tuple[QuestionSide, QuestionSide]
    is_too_long: bool

    @classmethod
    def of(cls, compared: Compared) -> Self:
        """With all that operators may see."""
        one, other = compared.recorded, compared.again
        is_too_long = False
        if compared.equal is None or compared.left_out:
            left, right = _lines(one), _lines(other)
        else:
            (left, right), differ = lines_beside(one.answer, other.answer)
            is_too_long = differ is None
        sides = QuestionSide("Recorded", one, left), QuestionSide("Asked again", other, right)
        return cls(compared, sides, is_too_long)


def _lines(call: ComparedAnswer) -> Sequence[CodeLine]:
    return () if call.answer is None else marked_json(call.answer, ())
