"""The form of a replay: what is typed in becomes an order, or a fault in words."""

import pytest

from services.console.views.replay_form import replay_form_of, replay_order_of
from services.operators.dead_letters.patch import EditFault
from services.operators.dead_letters.prepare_replay import ReplayOrder


@pytest.mark.parametrize(
    ("typed", "micro_usd"),
    [("", None), ("0", 0), ("0.25", 250_000), ("12.000001", 12_000_001)],
)
def test_money_is_typed_in_dollars(typed: str, micro_usd: int | None) -> None:
    order = replay_order_of(replay_form_of({"new-usd": typed, "new-reason": "why"}), "ops")

    assert isinstance(order, ReplayOrder)
    assert order.budget.micro_usd == micro_usd


@pytest.mark.parametrize("typed", ["-1", "1,5", "0.0000001", "1e3", "٣", ".", "$1"])
def test_what_is_no_amount_of_dollars_is_said(typed: str) -> None:
    fault = replay_order_of(replay_form_of({"new-usd": typed}), "ops")

    assert isinstance(fault, EditFault)
    assert "dollars" in fault.reason
