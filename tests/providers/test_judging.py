"""A judge of answers that differ, over HTTP: both orders, one budget, and each verdict."""

from typing import Any

import pytest

from answerbus.compared import Compared, Judged
from services.operators.adapters.asking_again import OVER_BUDGET, Asker
from services.operators.adapters.judging import Judge
from services.operators.comparisons.intervals import Proportion
from services.operators.comparisons.judging import judge_request
from services.operators.comparisons.questions import RecordedQuestion
from services.operators.comparisons.report import Comparison, JudgedReport
from tests.providers.test_asking_again import (
    CALL_MICRO_USD,
    EACH,
    JUDGE,
    TOOL,
    Model,
    asking,
    planted,
    question,
    said,
    step_question,
)

ODD = 3  # its answer differs, see `planted`


def angry(number: int) -> tuple[int, dict[str, Any]]:
    return said({"n": number, "mood": "angry"})


def judgement(verdict: str) -> tuple[int, dict[str, Any]]:
    return said({"reason": "It is said in the question.", "verdict": verdict})


def favours_angry(sent: str) -> tuple[int, dict[str, Any]]:
    """A judge that reads what it is shown."""
    return judgement("first" if sent.rindex("angry") < sent.rindex("sad") else "second")


async def compared(asker: Asker, judge: Judge, asked: RecordedQuestion) -> Compared:
    found = await asker.ask(asked, "trial")
    assert isinstance(found, Compared)
    told = await judge.judge(asked, found, lambda: False)
    assert isinstance(told, Compared)
    return told


async def report_of(model: Model, *numbers: int) -> tuple[JudgedReport | None, int]:
    folded = Comparison()
    async with asking(model) as asker:
        judge = Judge(asker, JUDGE)
        for number in numbers:
            folded.take(await compared(asker, judge, question(number)))
        assert folded.report().charged_micro_usd == asker.money.charged_micro_usd
    return folded.report().judged, asker.money.charged_micro_usd


async def test_what_a_position_wins_cancels_out_and_is_seen() -> None:
    found, charged = await report_of(Model(angry, judge=lambda _: judgement("first")), *range(8))

    assert found == JudgedReport(
        better=Proportion(4, 8),
        equal=Proportion(0, 8),
        worse=Proportion(4, 8),
        undecided=Proportion(0, 8),
        first=Proportion(8, 8),
    )
    assert charged == 16 * CALL_MICRO_USD


async def test_a_judge_that_reads_the_answers_is_of_one_mind_in_both_orders() -> None:
    found, _ = await report_of(Model(angry, judge=favours_angry), *range(8))

    assert found is not None
    assert (found.better, found.first) == (Proportion(8, 8), Proportion(4, 8))


async def test_equal_answers_count_without_a_call() -> None:
    model = Model(planted, judge=lambda _: judgement("undecided"))
    found, charged = await report_of(model, *range(EACH))

    assert found is not None
    assert (found.equal, found.undecided) == (Proportion(9, EACH), Proportion(1, EACH))
    assert charged == (EACH + 1) * CALL_MICRO_USD


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [((503, {"error": {"message": "away"}}), "failed"), (judgement("both"), "invalid")],
)
async def test_what_is_no_judgement_is_no_verdict(
    reply: tuple[int, dict[str, Any]], outcome: str
) -> None:
    async with asking(Model(planted, judge=lambda _: reply)) as asker:
        found = await compared(asker, Judge(asker, JUDGE), question(ODD))
    folded = Comparison()
    folded.take(found)

    assert isinstance(found.judged, Judged)
    assert (found.judged.verdict, found.judged.by.outcome) == (None, outcome)
    assert folded.report().judged is None


async def test_the_budget_is_one_and_a_judge_without_money_ends_the_comparison() -> None:
    model = Model(planted, judge=lambda _: judgement("second"))
    async with asking(model) as asker:
        found = await asker.ask(question(ODD), "trial")
        assert isinstance(found, Compared)
        asker.money.limit_micro_usd = asker.money.charged_micro_usd + CALL_MICRO_USD
        ended = await Judge(asker, JUDGE).judge(question(ODD), found, lambda: False)

    assert ended is OVER_BUDGET
    assert asker.money.charged_micro_usd == CALL_MICRO_USD


async def test_a_judge_sees_question_steps_and_answers_and_not_which_is_new() -> None:
    step = step_question(2, {"id": "4711"})
    async with asking(Model(planted)) as asker:
        plain = await asker.ask(question(ODD), "trial")
        assert isinstance(plain, Compared)
    shown = [
        judge_request(asked, plain, JUDGE, swapped=swapped).context
        for asked, swapped in ((question(ODD), False), (question(ODD), True), (step, False))
    ]
    names = [[fact.name for fact in context.facts] for context in shown]
    answers = [[fact.value for fact in context.facts[1:]] for context in shown[:2]]

    assert names[0] == names[1] == ["question", "first answer", "second answer"]
    assert names[2] == ["question", "steps so far", "first answer", "second answer"]
    assert answers[0] == answers[1][::-1] == [plain.recorded.answer, plain.again.answer]
    assert "number 3" in str(shown[0].facts[0].value)
    assert TOOL in str(shown[2].facts[1].value)
    assert all(fact.trust == "untrusted" for context in shown for fact in context.facts)
