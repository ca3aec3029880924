"""The pods of tool servers: what they run."""

import pytest

from answerbus.tools.server import DRAIN_S_DEFAULT
from tests.infra.chart import EXAMPLES, changed, component, of_kind, pod, render, values_of

CONFIG = ["--config", "/etc/answerbus/settings/answerbus.toml"]


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["tools", "serve", "a:b"], ["tools", "serve", "a:b", *CONFIG]),
        (
            ["tools", "mcp", "time", "--", "npx", "--", "server"],
            ["tools", "mcp", "time", *CONFIG, "--", "npx", "--", "server"],
        ),
    ],
    ids=["tools of ours", "a command of an MCP server"],
)
def test_a_tool_server_gets_its_settings_and_the_command_behind_it_none(
    args: list[str], expected: list[str]
) -> None:
    values = values_of("tools")
    values["toolServers"] = {"time": {"image": "registry/time:1", "args": args}}
    (found,) = (
        pod(one)["containers"][0]
        for one in render(values)
        if one["kind"] == "Deployment" and component(one) == "tools-time"
    )
    assert found["args"] == expected


@pytest.mark.parametrize("example", EXAMPLES)
def test_a_tool_server_is_killed_well_after_its_calls_have_had_their_time(example: str) -> None:
    """A longer grace alone gives calls no more time: the server ends them, and itself."""
    for one in of_kind(example, "Deployment"):
        if not component(one).startswith("tools-"):
            continue
        args = pod(one)["containers"][0]["args"]
        drain_s = float(args[args.index("--drain-s") + 1]) if "--drain-s" in args else None
        grace_s = pod(one)["terminationGracePeriodSeconds"]

        assert 20 <= grace_s - (drain_s or DRAIN_S_DEFAULT) <= 30


@pytest.mark.parametrize(
    ("chosen", "expected"), [({"enabled": False}, set()), ({"maxUnavailable": 2}, {2})]
)
def test_disruptions_are_as_the_values_say_of_tool_servers_too(
    chosen: dict[str, int], expected: set[int]
) -> None:
    made = render(changed("tools", podDisruptionBudget=chosen))
    budgets = (one["spec"] for one in made if one["kind"] == "PodDisruptionBudget")

    assert {one["maxUnavailable"] for one in budgets} == expected
