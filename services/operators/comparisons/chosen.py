"""One comparison read again: its report, and a page of its questions; pure."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal, get_args

from answerbus.compared import Compared
from services.operators.comparisons.report import Comparison

QuestionKind = Literal["differ", "equal", "unanswered"]
QUESTION_KINDS: tuple[QuestionKind, ...] = get_args(QuestionKind)


def kind_of(compared: Compared) -> QuestionKind:
    """Whether its answers differ, where there are two."""
    match compared.equal:
        case None:
            return "unanswered"
        case True:
            return "equal"
        case False:
            return "differ"


@dataclass(slots=True)
class ChosenComparison:
    """Of the questions of one kind, `size` are kept, from `first` on as they were asked."""

    kind: QuestionKind
    first: int
    size: int
    profile: str | None = None
    folded: Comparison = field(default_factory=Comparison)
    counts: Counter[QuestionKind] = field(default_factory=Counter)
    questions: list[Compared] = field(default_factory=list)

    def take(self, compared: Compared) -> None:
        """Count one record of the comparison."""
        self.folded.take(compared)
        self.profile = compared.again.profile
        kind = kind_of(compared)
        if kind == self.kind and self.first <= self.counts[kind] < self.first + self.size:
            self.questions.append(compared)
        self.counts[kind] += 1
