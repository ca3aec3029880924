"""Two answers beside each other."""

from typing import Any

from pydantic import JsonValue

from services.console.views.answer_pair import OFFERED_MAX, answer_pair
from services.console.views.marked_json import COMPARED_LINES_MAX
from tests.unit.console.context import OPERATOR, VIEWER, site
from tests.unit.operators.stored_examples import NOON_MS, stored

ONE: JsonValue = {"package": "lodash", "target_version": "4.17.20"}
OTHER: JsonValue = {"package": "lodash", "target_version": "4.17.21"}


def test_lines_that_the_other_lacks_are_marked() -> None:
    pair = answer_pair({"r-1": ONE, "r-2": OTHER}, None, None)

    assert pair is not None
    assert (pair.left, pair.right, pair.differ) == ("r-1", "r-2", True)
    left, right = pair.lines
    assert [line.text for line in left if line.kind == "less"] == ['  "target_version": "4.17.20"']
    assert [line.text for line in right if line.kind == "more"] == ['  "target_version": "4.17.21"']
    assert len(left) == len(right) == 4


def test_those_that_are_named_are_shown_and_else_the_newest() -> None:
    answers: dict[str, Any] = {"r-1": ONE, "r-2": OTHER, "r-3": ONE}

    named = answer_pair(answers, "r-1", "r-3")
    unknown = answer_pair(answers, "nobody", None)

    assert named is not None
    assert (named.left, named.right, named.differ) == ("r-1", "r-3", False)
    assert unknown is not None
    assert (unknown.left, unknown.right) == ("r-2", "r-3")
    assert answer_pair({"r-1": ONE}, "r-1", "r-1") is None


def test_long_answers_are_shown_without_a_comparison() -> None:
    long: list[Any] = list(range(COMPARED_LINES_MAX))
    pair = answer_pair({"r-1": long, "r-2": ONE}, None, None)

    assert pair is not None
    assert pair.differ is None
    assert len(pair.lines[0]) == COMPARED_LINES_MAX + 2


async def test_operators_compare_answers_on_the_page_of_their_workflow() -> None:
    records = [
        stored("result/text", NOON_MS, n, request_id=f"r-{n}", workflow_id="w", answer=f"said {n}")
        for n in range(OFFERED_MAX // 50)
    ]
    async with site(*records) as here:
        page = await (
            await here.get("/workflow?id=w&left=r-0&right=r-2", await here.log_in(OPERATOR))
        ).text()
        masked = await (await here.get("/workflow?id=w", await here.log_in(VIEWER))).text()

    assert page.count("said 0") >= 1
    assert '<li class="less">&#34;said 0&#34;</li>' in page
    assert '<li class="more">&#34;said 2&#34;</li>' in page
    assert "side by side" not in masked
