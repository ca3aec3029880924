"""Scenarios of MCP's public conformance suite that the bridge passes, as docs/agents.md says."""

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

pytestmark = pytest.mark.long  # each scenario starts Node.js and the bridge: three seconds

ROOT = Path(__file__).parents[4]
SUITE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
LIMIT_S = 60
PASSED = {  # but for sse-retry, which allows a busy machine 200 ms
    "2025-06-18": ("initialize", "tools_call"),
    "2025-11-25": ("initialize", "tools_call", "json-schema-2020-12-preservation"),
    "2026-07-28": (
        *("tools_call", "request-metadata", "sep-2322-client-request-state"),
        *("http-standard-headers", "http-custom-headers", "http-invalid-tool-headers"),
        *("json-schema-ref-no-deref", "json-schema-2020-12-preservation"),
    ),
}


def ran(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """The suite reports on stderr."""
    return subprocess.run(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


@pytest.fixture(scope="module")
def suite() -> Sequence[str]:
    """From npm's cache: no test asks the network."""
    npx = shutil.which("npx")
    if npx is None:
        pytest.skip("no npx on the path")
    command = (npx, "--offline", "-y", SUITE)
    if ran([*command, "list", "--client"]).returncode:
        pytest.skip(f"no Node.js 22 on the path, or no {SUITE} in npm's cache")
    return command


@pytest.mark.parametrize(
    ("version", "scenario"), [(version, one) for version, names in PASSED.items() for one in names]
)
def test_a_scenario_passes(
    suite: Sequence[str], version: str, scenario: str, tmp_path: Path
) -> None:
    client = f"{sys.executable} -m tests.unit.tools.mcp.conformance"
    asked = ("--scenario", scenario, "--spec-version", version, "--output-dir", str(tmp_path))
    ended = ran([*suite, "client", "--command", client, *asked])

    assert ended.returncode == 0, ended.stdout
    assert re.search(r"Passed: ([1-9]\d*)/\1, 0 failed, 0 warnings", ended.stdout), ended.stdout
