"""`answerbus lanes` without Kafka: what is said of a lane that is not there."""

from collections.abc import AsyncIterator

import pytest
from typer.testing import CliRunner

from services import cli
from services.commands import lanes
from services.commands.private_records import LaneContents


@pytest.mark.parametrize(("partition", "code"), [("1", 0), ("99", 2)])
def test_a_lane_that_is_not_there_is_not_one_that_is_well(
    partition: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def two(_bus: object, chosen: tuple[int, ...]) -> AsyncIterator[LaneContents]:
        for number in range(2):
            if number in chosen:
                yield LaneContents(number)

    monkeypatch.setattr(lanes, "lanes", two)
    done = CliRunner().invoke(cli.application(), ["lanes", "show", "--partition", partition])

    assert done.exit_code == code, done.output
    assert ("There is no lane 99." in done.stderr) == bool(code)
