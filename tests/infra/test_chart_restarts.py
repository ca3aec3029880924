"""Other values replace the worker's pods only where a running worker does not take them."""

from typing import Any

import pytest

from tests.infra.chart import component, render, values_of


def pods_of_workers(**changed: dict[str, Any]) -> Any:
    """The template of the minimal example with other settings, by section and name."""
    values = values_of("minimal")
    for section, table in changed.items():
        reported = values["settings"].setdefault(section, {})
        for name, found in table.items():
            is_table = isinstance(found, dict) and name in reported
            reported[name] = reported[name] | found if is_table else found
    (worker,) = (
        one for one in render(values) if one["kind"] == "Deployment" and component(one) == "worker"
    )
    return worker["spec"]["template"]


@pytest.mark.parametrize(
    ("changed", "restarts"),
    [
        ({"profiles": {"default": {"max_in_flight": 7}}}, False),
        ({"profiles": {"other": {"provider": "ollama", "model": "m"}}}, False),
        ({"worker": {"stuck_after_s": 60}}, True),
        ({"kafka": {"session_timeout_ms": 30_000}}, True),
        ({"agents": {"first": {"instructions": "Help."}}}, True),
    ],
    ids=["limit", "profile", "worker", "kafka", "first agent"],
)
def test_pods_are_replaced_for_what_is_taken_at_a_start_alone(
    changed: dict[str, dict[str, Any]], restarts: bool
) -> None:
    assert (pods_of_workers(**changed) != pods_of_workers()) is restarts
