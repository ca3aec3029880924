"""The pages of comparisons: a list, and one with figures and answers side by side."""

from typing import Any

import pytest

from services.console.pages.comparisons import PATH, QUESTIONS_SHOWN
from services.console.views.marked_json import COMPARED_LINES_MAX
from services.operators.comparisons.listed import COMPARISONS_MAX, ComparisonList
from services.operators.records.stored import Stored
from tests.unit.console.context import OPERATOR, VIEWER, site
from tests.unit.operators.comparisons.test_comparisons import compared
from tests.unit.operators.stored_examples import MINUTE_MS, NOON_MS, body_of, stored

NAME = "new-2026-11-22"
LIST = "/profiles/comparisons"


def question(number: int, *, is_equal: bool = False, **changes: Any) -> Stored:
    """One whose answers are its number, and the same or another one."""
    sides: dict[str, Any] = {
        side: {**body_of("compared/differs")[side], "answer": {"n": answer}}
        for side, answer in (("recorded", number), ("again", number if is_equal else -number))
    }
    return stored(
        "compared/differs",
        NOON_MS + number,
        number,
        request_id=f"r-{number}",
        equal=is_equal,
        fields=[{"path": "/n", "equal": is_equal}],
        **sides,
        **changes,
    )


async def shown(address: str, *records: Stored, token: str = OPERATOR) -> tuple[int, str]:
    async with site(*records) as here:
        response = await here.get(address, await here.log_in(token))
        return response.status, await response.text()


async def test_the_comparison_that_asked_last_comes_first() -> None:
    old = [question(number, is_equal=number != 1, comparison="old") for number in (1, 2, 3)]
    new = stored("compared/failed", NOON_MS + MINUTE_MS, 9)
    status, text = await shown(LIST, *old, new, question(4, comparison="old"))

    assert status == 200
    assert text.index(f"name={NAME}") > text.index("name=old")
    assert "50.0 %" in text
    assert "100.0 %" in text


async def test_no_comparison_is_no_error() -> None:
    assert "No comparison is kept." in (await shown(LIST))[1]


async def test_a_comparison_has_its_figures_and_answers_side_by_side() -> None:
    records = [stored(f"compared/{example}") for example in ("differs", "step", "failed")]
    _, text = await shown(f"{PATH}?name={NAME}", *records)

    assert "3 calls, $0.0029 charged" in text
    assert "66.7 % (20.8 % to 93.9 %)" in text  # valid of what was recorded
    assert '<th scope="row" data-name="Member">/mood</th>' in text
    assert '<li class="less">  &#34;mood&#34;: &#34;angry&#34;,</li>' in text
    assert '<li class="more">  &#34;mood&#34;: &#34;sad&#34;,</li>' in text
    assert "Different 1" in text
    assert "Not both answered 2" in text

    _, others = await shown(f"{PATH}?name={NAME}&show=unanswered", *records)

    assert ", step 2" in others
    assert "unavailable, status 503" in others
    assert "too large for one record" in others


async def test_what_a_judge_said_is_beside_the_answers() -> None:
    _, text = await shown(f"{PATH}?name={NAME}", stored("compared/judged_better"))

    assert "Judged better" in text
    assert "The customer is disappointed" in text
    assert "shown the new answer first" in text


async def test_long_answers_are_shown_without_marks() -> None:
    long = {"outcome": "answered", "answer": list(range(COMPARED_LINES_MAX))}
    record = stored("compared/differs", recorded=long)
    _, text = await shown(f"{PATH}?name={NAME}", record)

    assert "too long to compare line by line" in text
    assert '<li class="less">' not in text


async def test_questions_come_in_pages() -> None:
    records = [question(number) for number in range(1, QUESTIONS_SHOWN + 3)]
    address = f"{PATH}?name={NAME}"
    _, first = await shown(address, *records)
    _, second = await shown(f"{address}&page=1", *records)

    assert first.count('<details class="question"') == QUESTIONS_SHOWN
    assert second.count('<details class="question"') == 2
    assert f"request=r-{QUESTIONS_SHOWN + 2}" in second
    assert "Page 2 of 2" in second


async def test_viewers_see_figures_alone() -> None:
    _, text = await shown(f"{PATH}?name={NAME}", question(4711), token=VIEWER)

    assert "0.0 % (0.0 % to 79.3 %)" in text
    assert "4711" not in text


@pytest.mark.parametrize(
    ("query", "status"),
    [("name=none", 404), ("", 404), (f"name={NAME}&show=odd", 400), ("name=x&which=y", 400)],
)
async def test_what_is_not_there_is_named(query: str, status: int) -> None:
    assert (await shown(f"{PATH}?{query}", question(1)))[0] == status


def test_a_list_is_bounded_and_keeps_those_that_asked_last() -> None:
    found = ComparisonList()
    for number in range(COMPARISONS_MAX):
        found.take(compared(comparison=f"c-{number}"), number)
    assert not found.is_cut
    found.take(compared(comparison="c-0"), COMPARISONS_MAX)
    found.take(compared(comparison="another"), COMPARISONS_MAX + 1)

    assert found.is_cut
    assert len(found.newest()) == COMPARISONS_MAX
    assert [row.name for row in found.newest()][:2] == ["another", "c-0"]
    assert "c-1" not in [row.name for row in found.newest()]
