"""The doctor names profiles that budgets in dollars do not limit."""

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from services.commands.doctor import examine
from services.commands.doctor.findings.facts import Finding
from services.commands.doctor.findings.unpriced import budgets_finding
from services.settings.agents import AgentSettings
from services.settings.budgets import BudgetSettings

DOLLARS = {"usd": {"day": 50}}
WARNING = Finding(
    "budgets",
    "warning",
    "budgets in dollars (tenant:*) do not limit calls of profiles without a price (local, own): "
    "set `price` in `[profiles.NAME]`, zeros for a model of your own, or limit `tokens`, `calls` "
    "or `attempts`",
)


@pytest.mark.parametrize(
    ("budgets", "unpriced", "expected"),
    [
        ({}, ["own"], None),
        ({"tenant:*": {"calls": {"day": 5}}}, ["own"], None),
        ({"tenant:*": DOLLARS, "team:red": {"tokens": {"day": 5}}}, ["local", "own"], WARNING),
        (
            {"tenant:*": {"usd": {"month": 0}}},
            [],
            Finding(
                "budgets",
                "ok",
                "each profile has a price, so that budgets in dollars count all calls",
            ),
        ),
    ],
)
def test_budgets_in_dollars_need_prices(
    budgets: Mapping[str, Any], unpriced: Sequence[str], expected: Finding | None
) -> None:
    found = {name: BudgetSettings.model_validate(budget) for name, budget in budgets.items()}

    assert budgets_finding(found, {}, unpriced) == expected


def test_the_budgets_of_agents_need_prices_too() -> None:
    in_dollars, without = (
        AgentSettings.model_validate({"instructions": "Help.", "budget": budget})
        for budget in ({"micro_usd": 200_000}, {"attempts": 5})
    )
    found = budgets_finding({}, {"helper": in_dollars, "other": without}, ["local"])

    assert found is not None
    assert found.said.startswith("budgets in dollars (agents.helper) do not limit calls of")
    assert budgets_finding({}, {"other": without}, ["local"]) is None


SETTINGS = """
kafka = {bootstrap_servers = "127.0.0.1:1"}
[budgets."tenant:*"]
usd = {day = 50}
[profiles.local]
provider = "scripted"
script = "s.json"
[profiles.free]
provider = "scripted"
script = "s.json"
price = {input_usd = 0, output_usd = 0}
[profiles.own]
provider = "scripted"
script = "s.json"
"""


async def test_a_price_of_zero_is_a_price(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker, the workers and the providers are not asked."""

    async def nothing(*_: object) -> AsyncIterator[Finding]:
        no_findings: Sequence[Finding] = ()
        for finding in no_findings:
            yield finding

    for looked_at in ("_broker", "_worker_lanes", "_profiles"):
        monkeypatch.setattr(examine, looked_at, nothing)
    config = tmp_path / "answerbus.toml"
    config.write_text(SETTINGS, encoding="utf-8")

    found = [finding async for finding in examine.examined(config)]

    assert found[-1] == WARNING
