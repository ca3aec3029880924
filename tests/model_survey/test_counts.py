"""The survey's page says what its rows say."""

from dataclasses import replace
from typing import Any

from services.operators.comparisons.intervals import wilson
from tests.model_survey.agent_trials import CASES, EndedCall, Trial, has_worked, trials
from tests.model_survey.agents import row_of
from tests.model_survey.counts import counted, valid_after, valid_within
from tests.model_survey.page import agents_part, all_published_valid, page
from tests.model_survey.rows import Row, Try, as_line, parsed

RIGHT = Try(1, "by itself", fits_wire=True, is_valid=True, accepted=True)
WRONG = Try(
    1,
    "by itself",
    fits_wire=True,
    is_valid=False,
    accepted=False,
    failure="invalid",
    problem="type",
)
CUT = Try(1, "cut", fits_wire=None, is_valid=None, accepted=False, failure="truncated")


def row(*tries: Try, **more: Any) -> Row:
    known: dict[str, Any] = {
        "id": "q",
        "part": "mending",
        "group": "pattern",
        "outcome": "result",
        "cause": None,
        "published_valid": True,
        "is_enforced": True,
        "tries": tries,
    }
    return Row(**known | more)


def at(number: int, made: Try) -> Try:
    return replace(made, number=number)


DEAD = row(
    WRONG, at(2, WRONG), at(3, CUT), outcome="dead_letter", cause="budget_exhausted",
    published_valid=None,
)  # fmt: skip
ROWS = [row(RIGHT), row(WRONG, at(2, RIGHT)), row(CUT, at(2, WRONG), at(3, RIGHT)), DEAD]


def test_a_row_is_read_as_it_was_written() -> None:
    assert parsed(map(as_line, ROWS)) == ROWS


def test_a_question_is_valid_from_the_attempt_on_that_was_accepted() -> None:
    assert valid_after(ROWS) == [1, 2, 3]


def test_asked_again_a_question_is_valid_from_the_first_time_on_that_was() -> None:
    first = [row(made, id=f"again-x-{i}") for i, made in enumerate([WRONG, RIGHT, WRONG])]
    second = [row(made, id=f"again-y-{i}") for i, made in enumerate([RIGHT, WRONG, WRONG])]

    assert valid_within([*first, *second]) == [1, 2, 2]


def test_answers_are_counted_by_how_they_ended() -> None:
    counts = counted("all", ROWS)

    assert (counts.asked, counts.attempts, counts.ended, counts.cut) == (4, 9, 7, 2)
    assert (counts.fit_wire, counts.raw_valid, counts.stricter, counts.looser) == (7, 3, 0, 0)
    assert (counts.published, counts.published_valid, counts.dead_letters) == (3, 3, 1)


def test_the_verdicts_of_both_validators_are_set_against_each_other() -> None:
    strict = replace(WRONG, is_valid=True)
    loose = replace(RIGHT, is_valid=False)
    counts = counted("all", [row(strict), row(loose)])

    assert (counts.stricter, counts.looser) == (1, 1)


def test_one_published_answer_that_is_not_valid_is_enough() -> None:
    assert all_published_valid(ROWS)
    assert not all_published_valid([*ROWS, row(RIGHT, published_valid=False)])


def test_an_interval_holds_the_share_and_stays_between_none_and_all() -> None:
    low, high = wilson(3, 4)

    assert 0.30 < low < 0.75 < high < 0.96
    assert wilson(0, 9)[0] == 0
    assert wilson(9, 9)[1] == 1


def test_the_page_says_how_many_were_not_asked() -> None:
    text = page(ROWS, 10, "2026-01-01")

    assert "4 requests. 6 more were not asked" in text
    assert "| 1 attempt | 1 |" in text
    assert "2 of 3 (21% to 94%) were valid later" in text
    assert "{{" not in text


def test_a_trial_has_worked_if_its_tool_ended_well_and_the_answer_says_what_was_wanted() -> None:
    trial = Trial("own tool", 0, "forecaster", ("?",), "clear", "weather.get_weather")
    good, other = EndedCall("weather.get_weather", "ok"), EndedCall("echo.echo", "ok")
    repeat = EndedCall("weather.get_weather", "ok", is_repeat=True)

    assert has_worked(trial, "It is CLEAR.", [other, good])
    assert not has_worked(trial, "It is clear.", [other])
    assert not has_worked(trial, "It rains.", [good])
    assert not has_worked(trial, None, [good])
    assert not has_worked(
        replace(trial, tool="delegate"), "clear", [EndedCall("delegate", "ok", success=False)]
    )
    found = row_of(trial, "It is clear.", "result", 2, [good, repeat, EndedCall("x", "error")])
    assert (found.worked, found.made, found.repeats, found.failed) == (True, 2, 1, 1)
    table = agents_part([found], "2026-11-26")
    assert "| own tool |" in table
    assert "| 1 | 1 | 21% to 100% | 2 | 2 | 1 | 1 |" in table


def test_each_case_is_tried_ten_times_about_something_else() -> None:
    tried = [*trials()]

    assert len({trial.id for trial in tried}) == len({trial.turns for trial in tried}) == 40
    assert {trial.case for trial in tried} == {*CASES}
