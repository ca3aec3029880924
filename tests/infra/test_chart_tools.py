"""The pods of tool servers: what they run."""

import pytest

from tests.infra.chart import component, pod, render, values_of

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
