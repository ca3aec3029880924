"""What is asked again, where answers agree, and what a comparison comes to."""

import json
from typing import Any

import pytest

from answerbus.compared import Compared
from answerbus.envelope import decode
from services.operators.comparisons.agreement import agreement, is_equal
from services.operators.comparisons.intervals import Mean, Proportion, Sums, wilson
from services.operators.comparisons.money_budget import MoneyBudget
from services.operators.comparisons.questions import (
    GONE,
    WITHOUT_ENDS,
    RecordedQuestion,
    questions_of,
)
from services.operators.comparisons.report import Comparison, threshold_of
from services.operators.comparisons.sample import OutcomeSample, Sampled
from services.operators.records.stored import Stored
from services.operators.records.summary import summarize
from tests.unit.operators.audit.test_step_verification import a_run
from tests.unit.operators.runs.events import AGENT
from tests.unit.operators.stored_examples import NOON_MS, body_of, stored

IDS: dict[str, Any] = {"request_id": "r-1", "workflow_id": "order-1"}


def compared(example: str = "differs", **changes: Any) -> Compared:
    found = decode(stored(f"compared/{example}", **changes).value, ())
    assert isinstance(found, Compared)
    return found


def sampled(*records: Stored) -> tuple[Sampled, list[Stored]]:
    """Drawn by its outcome, with all its records."""
    sample = OutcomeSample(1)
    for record in records:
        sample.take_outcome(summarize(record))
    for record in records:
        sample.take_past(summarize(record))
    (found,) = sample
    return found, list(records)


def asked(*records: Stored) -> list[RecordedQuestion]:
    found = questions_of(*sampled(*records))
    assert isinstance(found, list), found
    return found


def test_members_are_compared_by_their_canonical_texts() -> None:
    one: Any = {"mood": "sad", "at": {"n": 1.0, "deep": [1, 2]}, "a/b": None, "only": 1}
    other: Any = {"at": {"deep": [2, 1], "n": 1}, "mood": "sad", "a/b": 0}

    assert {found.path: found.equal for found in agreement(one, other)} == {
        "/mood": True,
        "/at/n": True,
        "/at/deep": False,
        "/a~1b": False,
        "/only": False,
    }
    assert is_equal({"a": 1, "b": 2.0}, {"b": 2, "a": 1.0})
    assert not is_equal({"a": "1"}, {"a": 1})
    assert agreement("a text", "another") == ()


def test_a_wide_answer_has_a_bounded_number_of_members() -> None:
    wide: Any = {f"n{number}": number for number in range(1_000)}
    deep: Any = 1
    for _ in range(90):
        deep = {"d": deep}

    assert len(agreement(wide, wide)) == 64
    assert [found.path for found in agreement(deep, deep)] == ["/d/d/d/d"]


def test_a_money_budget_is_never_exceeded() -> None:
    money = MoneyBudget(100)

    assert money.reserve(60)
    assert not money.reserve(41)
    assert money.reserve(40)
    money.settle(60, 10)
    money.settle(40, 40)
    assert (money.charged_micro_usd, money.reserved_micro_usd) == (50, 0)
    assert money.reserve(50)
    assert not money.reserve(1)


def test_a_call_is_charged_what_it_cost_also_above_its_worst_case() -> None:
    money = MoneyBudget(100)

    assert money.reserve(40)
    money.settle(40, 70)
    assert not money.reserve(40)
    assert money.reserve(30)


def test_the_draw_is_the_same_in_any_order_and_counts_each_request_once() -> None:
    records = [
        stored("result/dep_bump", NOON_MS, n, request_id=f"r-{n}", workflow_id="w")
        for n in range(50)
    ]
    draws = []
    for order in (records, records[::-1], [*records, *records[:7]]):
        sample = OutcomeSample(10)
        for record in order:
            sample.take_outcome(summarize(record))
        draws.append([found.key for found in sample])

    assert draws[0] == draws[1] == draws[2]
    assert len(draws[0]) == 10


def test_only_outcomes_that_the_model_is_to_blame_for_are_drawn() -> None:
    sample = OutcomeSample(10)
    for number, example in enumerate(
        (
            "refusal/by_model",
            "unvalidated_result/invalid",
            "dead_letter/unknown_profile",
            "dead_letter/waited_too_often",
            "dead_letter/budget_exhausted_attempts",
            "attempt/result",
        )
    ):
        sample.take_outcome(summarize(stored(example, request_id=f"r-{number}")))
    kinds = sorted(found.outcome.topic.name for found in sample)

    assert kinds == ["dead-letters", "refusals", "results"]


@pytest.mark.parametrize(
    ("contract", "count"), [("plan_proposal", 1), ("plan_proposal.v1", 1), ("x", 0)]
)
def test_one_contract_may_be_asked_for(contract: str, count: int) -> None:
    sample = OutcomeSample(10, contract)
    sample.take_outcome(summarize(stored("result/dep_bump")))

    assert len(sample) == count


def test_a_request_is_compared_by_its_first_call_and_its_published_answer() -> None:
    usage = {"input_tokens": 9, "output_tokens": 1, "micro_usd": 70}
    failure = body_of("attempt/retry")["failure"]
    (question,) = asked(
        stored("request/minimal", **IDS),
        stored("attempt/released", **IDS, attempt=1),
        stored("attempt/retry", **IDS, attempt=1, usage=usage, failure=failure, duration_ms=30),
        stored("attempt/result", **IDS, attempt=2),
        stored("result/text", **IDS),
    )
    recorded = question.recorded

    assert question.step is None
    assert (recorded.outcome, recorded.usage.micro_usd, recorded.duration_ms) == ("invalid", 70, 30)
    assert recorded.answer == body_of("result/text")["answer"]


def test_a_request_that_is_no_longer_kept_is_named() -> None:
    found, records = sampled(stored("result/text", **IDS))

    assert questions_of(found, records) == GONE
    assert questions_of(found, []) == GONE


def run_records(**more: Any) -> list[Stored]:
    ids = {"request_id": "r-1", "workflow_id": body_of("step/calls")["workflow_id"]}
    run = {"agent": AGENT, "steps": 2, "tool_calls": 3, "children": 0, "usage": {}}
    return [
        stored("request/minimal", **ids, agent={"name": "support"}),
        *a_run(),
        stored("result/text", **{**ids, "run": run, **more}),
    ]


def test_each_step_of_a_run_is_asked_after_the_recorded_ones() -> None:
    found = asked(*run_records())
    past = [len(one.request.resumed.steps) if one.request.resumed else 0 for one in found]

    assert [one.step for one in found] == [1, 2, 3]
    assert past == [0, 1, 2]
    assert found[0].recorded.answer == {
        "calls": [
            {"tool": call["tool"], "args": call["args"]}
            for call in json.loads(a_run()[0].value or b"")["calls"]
        ]
    }
    assert found[2].recorded.answer == body_of("result/text")["answer"]


def test_a_run_without_all_its_ends_is_not_asked() -> None:
    records = run_records()
    found, _ = sampled(*records)
    whole = [one for one in records if b"tool_ended" not in (one.value or b"")]

    assert questions_of(found, whole) == WITHOUT_ENDS


def mean_of(*numbers: int) -> Mean:
    sums = Sums()
    for number in numbers:
        sums.take(number)
    return sums.mean


def test_shares_and_means_have_intervals() -> None:
    low, high = Proportion(180, 200).interval

    assert (round(low, 3), round(high, 3)) == (0.851, 0.934)
    assert Proportion(0, 0).interval == (0.0, 1.0)
    assert Proportion(0, 0).value is None
    assert wilson(0, 9)[0] == 0
    assert mean_of().value is None
    assert mean_of(3).interval is None
    mean = mean_of(1, 2, 3)
    assert mean.value == 2
    assert mean.interval is not None
    assert round(mean.half, 3) == 1.132


def test_a_report_counts_both_sides_and_members_that_agree_least_come_first() -> None:
    folded = Comparison()
    for example in ("differs", "step", "failed"):
        folded.take(compared(example))
    report = folded.report()

    assert (report.asked, report.equal) == (3, Proportion(0, 1))
    assert (report.recorded.valid, report.again.valid) == (Proportion(2, 3), Proportion(1, 3))
    assert (report.again.invalid, report.again.failed) == (Proportion(1, 3), Proportion(1, 3))
    assert next(iter(report.fields.items())) == ("/mood", Proportion(0, 1))
    assert report.charged_micro_usd == 159 + 296 + 2400
    assert report.again.tokens.of == 2


@pytest.mark.parametrize(
    ("text", "is_met"),
    [
        ("valid>=0.33", True),
        ("valid >= 0.34", False),
        ("equal<=0", True),
        ("failed<=0.5", True),
        ("cost<=0.07", True),
        ("cost<=0.05", False),
    ],
)
def test_bars_are_held_against_the_report(text: str, is_met: bool) -> None:
    folded = Comparison()
    for example in ("differs", "step", "failed"):
        folded.take(compared(example))
    bar = threshold_of(text)

    assert bar is not None
    assert bar.is_met(folded.report()) is is_met
    assert not bar.is_met(Comparison().report())


@pytest.mark.parametrize(("text", "is_met"), [("better>=0.5", True), ("worse>=0.5", False)])
def test_bars_on_verdicts_are_missed_without_a_judge(text: str, is_met: bool) -> None:
    judged, unjudged = Comparison(), Comparison()
    judged.take(compared("judged_better"))
    judged.take(compared(equal=True))
    unjudged.take(compared("differs"))
    bar = threshold_of(text)

    assert bar is not None
    assert bar.is_met(judged.report()) is is_met
    assert not bar.is_met(unjudged.report())


@pytest.mark.parametrize(("text", "is_met"), [("worse<=0.1", True), ("better>=0.5", False)])
def test_where_all_answers_are_equal_none_is_worse_and_none_is_better(
    text: str, is_met: bool
) -> None:
    """No judge was asked, since none was needed."""
    folded = Comparison()
    folded.take(compared(equal=True))

    bar = threshold_of(text)
    assert bar is not None
    assert bar.is_met(folded.report()) is is_met


@pytest.mark.parametrize("text", ["valid>0.9", "nice>=1", "valid>=", "valid>=1e9", "", "valid>=-1"])
def test_what_is_no_bar_is_refused(text: str) -> None:
    assert threshold_of(text) is None
