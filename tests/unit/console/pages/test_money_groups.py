"""Spending in groups, which may be many."""

import threading
from collections.abc import Sequence

import pytest

from services.console.state.spend_groups import GroupRow, SpendGroups
from tests.unit.console.context import OPERATOR, site
from tests.unit.operators.stored_examples import NOON_MS, stored


@pytest.mark.parametrize("path", ["/money/groups", "/money/groups.csv"])
async def test_groups_are_ranked_beside_the_event_loop(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads, rows = list[str](), SpendGroups.rows

    def noted(groups: SpendGroups, *most: int) -> Sequence[GroupRow]:
        threads.append(threading.current_thread().name)
        return rows(groups, *most)

    monkeypatch.setattr(SpendGroups, "rows", noted)
    async with site(stored("attempt/result", NOON_MS - 1, labels={"team": "billing"})) as here:
        response = await here.get(path + "?by=label.team", await here.log_in(OPERATOR))
        text = await response.text()

    assert "billing" in text
    assert len(threads) == 1
    assert threads[0] != threading.current_thread().name
