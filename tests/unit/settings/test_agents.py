"""Agents in the settings and of distributions."""

from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from answerbus.agent import AgentRef
from answerbus.budget import Budget
from answerbus.limits import DEFINITION_BYTES_MAX
from services.settings import agents
from services.settings.agents import AgentError, installed_agents
from services.settings.settings import SetUpError, load
from services.worker.adapters.agents import known_agents, pins_of

FILE = """
[agents.support]
version = 3
instructions = "You help."
tools = ["orders.get_order", "orders.refund"]
approvals = {"orders.refund" = "always"}
budget = {attempts = 7}
steps_max = 4
pins = {orders = "sha256:%s"}
""" % ("0" * 64)


def settings_of(tmp_path: Path, text: str) -> Any:
    path = tmp_path / "answerbus.toml"
    path.write_text(text)
    return load(path, {})


def test_an_agent_of_the_settings_is_known_with_its_limits(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, FILE)

    found = known_agents(settings.agents).find(AgentRef(name="support"))

    assert found is not None
    assert (found.outline.version, found.outline.steps_max) == (3, 4)
    assert found.outline.budget.attempts == 7
    assert found.tools == ("orders.get_order", "orders.refund")
    assert found.approvals == {"orders.refund": "always"}
    assert pins_of(settings.agents) == {"orders": "sha256:" + "0" * 64}


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        ("{micro_usd = 200000}", Budget(attempts=20, micro_usd=200_000)),
        ("{tokens = 9000}", Budget(attempts=20, tokens=9_000)),
        ("{attempts = 3, tokens = 9000}", Budget(attempts=3, tokens=9_000)),
    ],
)
def test_a_budget_of_money_or_tokens_alone_has_the_attempts_of_a_run(
    budget: str, expected: Budget, tmp_path: Path
) -> None:
    settings = settings_of(tmp_path, FILE.replace("{attempts = 7}", budget))

    assert settings.agents["support"].budget == expected


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ('tools = ["get_order"]', "agents.support.tools.0"),
        ('tools = ["a.b", "a.b"]', "each tool once"),
        ('tools = ["a.b"]\napprovals = {"a.c" = "always"}', "approvals.* not among .*a.c"),
        ('tools = ["a.b"]\npins = {b = "sha256:%s"}' % ("0" * 64), "pins.* toolsets .*: b"),
        ("steps_max = 101", "agents.support.steps_max"),
        ("stepps_max = 1", "did you mean `steps_max`"),
        ("version = 0", "agents.support.version"),
        ('malformed = "guess"', "agents.support.malformed"),
    ],
)
def test_a_wrong_setting_of_an_agent_is_named(tmp_path: Path, wrong: str, text: str) -> None:
    with pytest.raises(SetUpError, match=text):
        settings_of(tmp_path, f'[agents.support]\ninstructions = "x"\n{wrong}\n')


@pytest.mark.parametrize("name", ['"a b"', '""', '"a/b"', '"%s"' % ("a" * 200)])
def test_a_name_that_no_request_can_say_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SetUpError, match="agent"):
        known_agents(settings_of(tmp_path, f'[agents.{name}]\ninstructions = "x"\n').agents)


def test_names_of_agents_are_in_lower_case(tmp_path: Path) -> None:
    with pytest.raises(SetUpError, match="agent name 'Support' must be in lower case"):
        settings_of(tmp_path, '[agents.Support]\ninstructions = "x"\n')


RESEARCH = {"version": 2, "instructions": "You search."}
BROKEN = {"instructions": ""}


def entries(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    entry = EntryPoint("research", f"{__name__}:{value}", agents.GROUP)
    monkeypatch.setattr(agents, "entry_points", lambda group: [entry] if group else [])


def test_a_distribution_brings_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    entries(monkeypatch, "RESEARCH")

    assert known_agents({}).find(AgentRef(name="research", version=2)) is not None


@pytest.mark.parametrize("value", ["BROKEN", "ABSENT"])
def test_an_agent_of_a_distribution_that_cannot_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    entries(monkeypatch, value)

    with pytest.raises(AgentError, match="'research'"):
        installed_agents()
    with pytest.raises(SetUpError, match="'research'"):
        known_agents({})


def test_instructions_that_no_record_of_a_run_could_hold_are_refused(tmp_path: Path) -> None:
    text = f'[agents.support]\ninstructions = "{"x" * (DEFINITION_BYTES_MAX + 1)}"\n'
    with pytest.raises(SetUpError, match="instructions"):
        settings_of(tmp_path, text)


def test_the_name_of_a_distributions_agent_is_one_that_requests_can_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entry = EntryPoint("re search", f"{__name__}:RESEARCH", agents.GROUP)
    monkeypatch.setattr(agents, "entry_points", lambda group: [entry] if group else [])

    with pytest.raises(AgentError, match="re search"):
        installed_agents()
