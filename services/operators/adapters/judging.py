"""Asks a judge about each question whose answers differ, on the budget of the comparison."""

from dataclasses import dataclass

from answerbus.compared import Compared
from services.operators.adapters.asking_again import Asker, CannotGoOn, IsOver, PaidAnswer
from services.operators.comparisons.judging import is_judged, judge_request, judged
from services.operators.comparisons.questions import RecordedQuestion


@dataclass(slots=True)
class Judge:
    """Every second time it is shown the new answer first, since judges favour a position."""

    asker: Asker
    profile: str
    asked: int = 0

    async def judge(
        self, question: RecordedQuestion, compared: Compared, is_over: IsOver
    ) -> Compared | CannotGoOn | None:
        """The same with what the judge said, if it is asked; None as of `Asker.answer`."""
        if not is_judged(compared):
            return compared
        swapped = self.asked % 2 == 1
        self.asked += 1
        request = judge_request(question, compared, self.profile, swapped=swapped)
        found = await self.asker.answer(request, is_over)
        if not isinstance(found, PaidAnswer):
            return found
        charged = compared.charged_micro_usd + found.charged_micro_usd
        said = judged(found.answer, swapped=swapped)
        return compared.model_copy(update={"judged": said, "charged_micro_usd": charged})
