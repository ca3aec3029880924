"""Agents of settings and of distributions: pins, one card of each toolset, and unknown names."""

import pytest

from services.settings.agents import AgentSettings
from services.settings.settings import Settings, SetUpError
from services.worker.adapters import agents
from services.worker.adapters.agents import advice_on, pins_of

ONE, OTHER = ("sha256:" + digit * 64 for digit in "12")


def agent(digest: str) -> AgentSettings:
    return AgentSettings(instructions="Help.", tools=("orders.get",), pins={"orders": digest})


def test_agents_of_distributions_pin_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "installed_agents", lambda: {"packed": agent(ONE)})

    assert pins_of({}) == {"orders": ONE}
    assert pins_of({"support": agent(ONE)}) == {"orders": ONE}


def test_a_toolset_is_pinned_to_one_card() -> None:
    with pytest.raises(SetUpError, match="'a' and 'b' pin the toolset 'orders'"):
        pins_of({"a": agent(ONE), "b": agent(OTHER)})


def test_names_of_agents_and_profiles_that_there_are_not_are_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = AgentSettings.model_validate({"instructions": "Help.", "best_of": {"selector": "slw"}})
    monkeypatch.setattr(agents, "installed_agents", lambda: {"packed": found})
    delegate = {"agents": ["planner", "packed", "reserch"], "profiles": ["default", "fsat"]}
    best_of = {"profiles": ["default", "fsat"], "selector": "default"}
    settings = Settings.model_validate(
        {
            "profiles": {"default": {"provider": "scripted", "script": "rules.json"}},
            "agents": {
                "planner": {"instructions": "Plan.", "delegate": delegate},
                "reply": {"instructions": "Reply.", "best_of": best_of},
                "plain": {"instructions": "Help."},
            },
        }
    )

    assert advice_on(settings) == [
        "the agent 'packed' names the profile 'slw', and there is none of that name",
        "the agent 'planner' names the agent 'reserch', and there is none of that name",
        "the agent 'planner' names the profile 'fsat', and there is none of that name",
        "the agent 'reply' names the profile 'fsat', and there is none of that name",
    ]
