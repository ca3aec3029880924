"""Agents of settings and of distributions: pins, one card of each toolset, and unknown names."""

import re
import tomllib
from pathlib import Path

import pytest

from answerbus.agent import AgentId
from answerbus.policy import ToolPolicy
from services.settings.agents import AgentSettings
from services.settings.settings import Settings, SetUpError
from services.worker.adapters import agents
from services.worker.adapters.agents import advice_on, known_agents, pins_of
from services.worker.core.json_schema.keywords import JsonObject
from services.worker.core.run.policy import compiled

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


def with_policy(**policy: object) -> AgentSettings:
    return AgentSettings.model_validate(
        {
            "instructions": "Help.",
            "tools": ["orders.refund"],
            "policy": {"orders.refund": policy},
        }
    )


@pytest.mark.parametrize(
    ("policy", "fault"),
    [
        ({"deny": {"$ref": "http://example.com/x"}}, "`deny` is not a JSON Schema"),
        ({"allow": {"type": "strnig"}}, "`allow` is not a JSON Schema"),
        ({"ask": {"properties": {"arg": {}}}}, '`ask` is about "arg"'),
        ({"ask": {"enum": ["x" * 20_000]}}, "16,384 are the most"),
    ],
)
def test_an_unusable_policy_is_named_at_start(policy: dict[str, object], fault: str) -> None:
    with pytest.raises(SetUpError, match=fault) as found:
        known_agents({"support": with_policy(**policy)})
    assert "'support' for 'orders.refund'" in str(found.value)


def test_a_policy_of_unknown_members_or_of_another_tool_is_no_setting() -> None:
    with pytest.raises(ValueError, match="unknown: alow"):
        with_policy(alow={})
    with pytest.raises(ValueError, match="`policy` of what is not among `tools`: orders"):
        AgentSettings.model_validate(
            {"instructions": "Help.", "tools": ["orders.get"], "policy": {"orders.pay": {}}}
        )


@pytest.mark.parametrize("required", [{}, {"required": ["cents"]}])
def test_an_allow_rule_that_does_not_require_what_it_looks_at_is_advised_on(
    required: dict[str, object],
) -> None:
    args = {"properties": {"cents": {"maximum": 5}}, **required}
    agent = with_policy(allow={"properties": {"args": args}, "required": ["args"]})
    settings = Settings.model_validate(
        {
            "profiles": {"default": {"provider": "scripted", "script": "rules.json"}},
            "agents": {"support": agent.model_dump()},
        }
    )
    sentence = (
        "the policy of the agent 'support' for 'orders.refund' allows calls that lack 'cents': "
        "list in `required` what `allow` looks at"
    )
    assert advice_on(settings) == ([] if required else [sentence])


def test_a_policy_guards_the_card_of_its_tool_and_holds_for_open_runs_if_said_so() -> None:
    agent = with_policy(otherwise="deny")
    ref = AgentId(name="support", version=1, digest=ONE)

    kept = known_agents({"support": agent})
    assert kept.guarded == {"orders.refund"}
    assert kept.current_policy(ref, "orders.refund") is None
    now = known_agents({"support": agent.model_copy(update={"policy_for_open_runs": True})})
    assert now.current_policy(ref, "orders.refund") == ToolPolicy(otherwise="deny")
    assert now.current_policy(ref, "orders.get") is None
    assert kept.digests != now.digests


def test_a_policy_of_the_next_version_of_an_agent_holds_for_open_runs_of_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A run of a version that is no more had the policy that it began with alone."""
    ref = AgentId(name="support", version=1, digest=ONE)
    update = {"version": 2, "policy_for_open_runs": True}
    second = with_policy(otherwise="deny").model_copy(update=update)

    now = known_agents({"support": second})
    assert now.current_policy(ref, "orders.refund") == ToolPolicy(otherwise="deny")
    first = with_policy(otherwise="ask")
    monkeypatch.setattr(agents, "installed_agents", lambda: {"support": first})
    both = known_agents({"support": second})
    assert both.current_policy(ref, "orders.refund") is None, "it is still there, and does not"


@pytest.mark.parametrize(
    ("cents", "untrusted_read", "verdict"),
    [(5_000, False, "allow"), (5_001, False, "ask"), (5_000, True, "deny"), (5_001, True, "deny")],
)
def test_the_rules_on_the_page_of_agents_say_what_it_says(
    cents: int, untrusted_read: bool, verdict: str
) -> None:
    page = (Path(__file__).parents[4] / "docs/agents.md").read_text(encoding="utf-8")
    snippet = re.search(r"## Rules on arguments\n.*?```toml\n(.*?)```", page, re.DOTALL)
    assert snippet is not None
    agent = AgentSettings.model_validate(tomllib.loads(snippet[1])["agents"]["support"])
    run: JsonObject = {"steps": 0, "spent": {}, "untrusted_read": untrusted_read}
    value: JsonObject = {"args": {"cents": cents}, "labels": {}, "run": run}

    assert compiled(agent.policy["orders.refund"]).verdict(value).verdict == verdict
