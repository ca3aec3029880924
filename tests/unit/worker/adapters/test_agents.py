"""The pins of agents, of the settings and of distributions: one card of each toolset."""

import pytest

from services.agents import AgentSettings
from services.settings import SetUpError
from services.worker.adapters import agents
from services.worker.adapters.agents import pins_of

ONE, OTHER = ("sha256:" + digit * 64 for digit in "12")


def agent(digest: str) -> AgentSettings:
    return AgentSettings(instructions="Help.", tools=("orders.get",), pins={"orders": digest})


def test_agents_of_distributions_pin_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "of_distributions", lambda: {"packed": agent(ONE)})

    assert pins_of({}) == {"orders": ONE}
    assert pins_of({"support": agent(ONE)}) == {"orders": ONE}


def test_a_toolset_is_pinned_to_one_card() -> None:
    with pytest.raises(SetUpError, match="'a' and 'b' pin the toolset 'orders'"):
        pins_of({"a": agent(ONE), "b": agent(OTHER)})
