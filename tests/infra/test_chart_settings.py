"""The settings file of the chart says what its values say."""

import json
from pathlib import Path
from typing import Any

from services.settings.settings import Settings, load
from tests.infra.chart import CHART, changed, render


def written(folder: Path, **sections: Any) -> Path:
    """The settings file of a release whose values have these sections."""
    (found,) = (
        one
        for one in render(changed("minimal", settings=sections))
        if one["kind"] == "ConfigMap" and one["metadata"]["name"] == "prod-settings"
    )
    path = folder / "answerbus.toml"
    path.write_text(found["data"]["answerbus.toml"], encoding="utf-8")
    return path


def test_every_section_of_the_settings_may_be_set() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))

    assert schema["properties"]["settings"]["properties"].keys() == Settings.model_fields.keys()


def test_budgets_of_labels_reach_the_workers(tmp_path: Path) -> None:
    """Their names are no bare keys of TOML."""
    budgets = {"tenant:*": {"usd": {"day": 50, "month": 0.5}}, "team:": {"calls": {"day": 9}}}
    path = written(tmp_path, budgets=budgets)

    assert load(path, {}).budgets == Settings.model_validate({"budgets": budgets}).budgets


def test_agents_reach_the_workers_although_helm_writes_whole_numbers_with_a_point(
    tmp_path: Path,
) -> None:
    agents = {
        "helper": {
            "instructions": "Help.",
            "steps_max": 5,
            "budget": {"attempts": 9, "tokens": 20_000_000},
            "delegate": {"depth_max": 2, "children_max": 4, "agents": ["chooser"]},
        },
        "chooser": {"instructions": "Choose.", "best_of": {"n": 2}},
    }
    path = written(tmp_path, agents=agents)

    assert "attempts = 9.0" in path.read_text(encoding="utf-8")
    assert load(path, {}).agents == Settings.model_validate({"agents": agents}).agents
