"""The contract `judgement` v1: which of two answers to a question is the better one, and why."""

from typing import Annotated, Literal

from pydantic import Field

from answerbus.contract import Closed, Contract
from answerbus.values import Detail

JudgementVerdict = Literal["first", "second", "equal", "undecided"]


class Judgement(Closed):
    """Two answers, told apart by their order alone."""

    reason: Annotated[
        Detail, Field(min_length=1, description="What decides between them: at most 2 KiB.")
    ]
    verdict: Annotated[
        JudgementVerdict,
        Field(
            description="The better answer; `equal` if both are as good, `undecided` if what is "
            "given does not decide it."
        ),
    ]


JUDGEMENT: Contract[Judgement] = Contract(
    name="judgement",
    version=1,
    answer=Judgement,
    asked=Judgement,
    summary="Which of two answers is the better one, and why.",
    examples=(
        {"reason": "The second names the order that was asked for.", "verdict": "second"},
        {"reason": "Both say the same in other words.", "verdict": "equal"},
    ),
)
