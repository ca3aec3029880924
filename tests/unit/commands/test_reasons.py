"""The option `--reason` of commands that change something."""

import pytest
from typer.testing import CliRunner

from services import cli


@pytest.mark.parametrize("text", ["", " "])
@pytest.mark.parametrize(
    "command",
    [
        ("cancel", "r-1", "--workflow", "w"),
        ("replay", "dismiss", "--id", "d-1"),
        ("replay", "reopen", "--id", "d-1"),
        ("approvals", "deny", "c-1"),
    ],
    ids=" ".join,
)
def test_an_empty_reason_is_refused(command: tuple[str, ...], text: str) -> None:
    done = CliRunner().invoke(cli.application(), [*command, "--reason", text])

    assert done.exit_code == 2, done.output
    assert "this is empty: say why" in done.stderr
