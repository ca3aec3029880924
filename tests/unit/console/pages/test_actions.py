"""The page of people's actions, which may be many."""

import pytest

from services.console.figures.action_rows import ActionRow, action_row
from services.console.pages import audit
from services.console.state.control_actions import ControlAction
from tests.unit.console.context import OPERATOR, site
from tests.unit.operators.stored_examples import NOON_MS, stored


async def test_rows_are_made_of_those_alone_that_the_page_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    many = (
        stored("cancel/request", NOON_MS - n, n, request_id=f"r-{n}")
        for n in range(2 * audit.PAGE_ACTIONS)
    )
    made = list[str]()

    def counted(action: ControlAction) -> ActionRow:
        made.append(action.subject)
        return action_row(action)

    monkeypatch.setattr(audit, "action_row", counted)
    async with site(*many) as here:
        cookie = await here.log_in(OPERATOR)
        text = await (await here.get("/actions?page=1", cookie)).text()

    assert made == [f"r-{n}" for n in range(audit.PAGE_ACTIONS, 2 * audit.PAGE_ACTIONS)]
    assert all(name in text for name in made)
