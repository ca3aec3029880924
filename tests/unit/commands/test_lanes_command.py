"""`answerbus lanes` without Kafka: what is said of a lane that is not there."""

from collections.abc import AsyncIterator

import pytest
from typer.testing import CliRunner

from services import cli
from services.commands import lanes
from services.commands.private_records import LaneContents

HIDDEN = "Records of runs were not looked at."


@pytest.mark.parametrize(
    ("partition", "hidden", "code"), [("1", None, 0), ("1", HIDDEN, 1), ("99", None, 2)]
)
def test_what_is_not_there_or_hidden_is_not_what_is_well(
    partition: str, hidden: str | None, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hidden_runs(_bus: object) -> str | None:
        return hidden

    async def two(_bus: object, chosen: tuple[int, ...]) -> AsyncIterator[LaneContents]:
        for number in range(2):
            if number in chosen:
                yield LaneContents(number)

    monkeypatch.setattr(lanes, "lanes", two)
    monkeypatch.setattr(lanes, "hidden_runs", hidden_runs)
    done = CliRunner().invoke(cli.application(), ["lanes", "show", "--partition", partition])

    assert done.exit_code == code, done.output
    assert ("There is no lane 99." in done.stderr) == (code == 2)
    assert (HIDDEN in done.stderr) == (code == 1)


def test_skip_names_the_role_whose_rights_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def hidden_runs(_bus: object, *, role: str = "operator") -> str:
        return f"--role {role}"

    monkeypatch.setattr(lanes, "hidden_runs", hidden_runs)
    place = ["--topic", "runs", "--partition", "1", "--offset", "5"]
    done = CliRunner().invoke(cli.application(), ["lanes", "skip", *place, "--reason", "why"])

    assert (done.exit_code, done.stderr) == (1, "--role worker\n")
