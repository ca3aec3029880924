"""A recorded run is played again: the same steps, or the nearest difference."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from answerbus.cassette import Cassette, read_cassette
from answerbus.topics import DEAD_LETTERS, RESULTS
from services.worker.core.schema.resolved import JsonObject
from tests.unit.worker.core.run_builders import actions, call, says, tool
from tests.unit.worker.lane.recorded_runs import cassette_of, played, recorded, steps_of
from tests.unit.worker.lane.run_checks import finished
from tests.unit.worker.lane.run_world import TOOLS, RunStage
from tests.unit.worker.lane.virtual import on_virtual_time, run
from tests.unit.worker.lane.world import events

pytestmark = pytest.mark.wide


@on_virtual_time
async def test_the_same_definition_gives_the_same_steps(tmp_path: Path) -> None:
    path = tmp_path / "cassette.json"

    cassette = await recorded(path)
    stage = await played(path, cassette)

    was = [
        (step.request_id, [*step.said], [(it.tool, it.args) for it in step.calls])
        for one in cassette.requests
        for step in one.steps
    ]
    assert len(was) == 2
    assert steps_of(stage) == was
    assert [event["answer"] for event in events(stage.broker, RESULTS)] == ["All is well."]


def changed(caplog: pytest.LogCaptureFixture, path: Path, **stage: Any) -> str:
    """What the log says when a cassette is played with another definition."""
    found: list[str] = []

    async def main() -> None:
        cassette = await recorded(path)
        made = await played(path, cassette, **stage)
        (letter,) = events(made.broker, DEAD_LETTERS)
        assert letter["cause"]["kind"] == "rejected"
        assert letter["cause"]["code"] == "changed_prompt"
        found.extend(record.getMessage() for record in caplog.records)

    with caplog.at_level(logging.ERROR):
        run(main())
    (message,) = {one for one in found if "cassette" in one}
    return message


def test_a_changed_prompt_names_the_step_and_the_difference(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    message = changed(caplog, tmp_path / "cassette.json", agent={"steps_max": 2})

    assert "r-1, step 2: at /system" in message
    assert "\n  - " in message
    assert "\n  + " in message


def test_a_changed_tool_names_the_step_and_the_difference(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cassette.json"
    cassettes: list[Cassette] = []

    async def record() -> None:
        cassettes.append(await recorded(path))

    run(record())
    other: JsonObject = {"type": "object", "properties": {"order_id": {"type": "integer"}}}
    monkeypatch.setitem(TOOLS, "orders.get", tool("orders.get", other))

    async def main() -> None:
        await played(path, cassettes[0])

    with caplog.at_level(logging.ERROR):
        run(main())
    (message,) = {r.getMessage() for r in caplog.records if "cassette" in r.getMessage()}
    assert "r-1, step 1: at /system" in message
    assert '"type":"integer"' in message


@on_virtual_time
async def test_texts_are_redacted_by_rule_and_the_rest_is_as_it_was() -> None:
    steps = (
        actions(says("Mail ann@example.org."), call(order_id="4711234")),
        actions(says("Sent to ann@example.org, order 4711234.")),
    )

    stage = await RunStage.opened("r-1", steps=steps)
    await finished(stage)
    text = cassette_of(stage, "emails", "digits").model_dump_json()
    await stage.end()

    assert "ann@example.org" not in text
    assert "4711234" not in text
    found = read_cassette(text.encode())
    assert isinstance(found, Cassette)
    assert found.redactions == ("emails", "digits")
    (one,) = found.requests
    assert [step.said for step in one.steps] == [("Mail ***.",)]
    assert json.loads(text)["requests"][0]["outcome"]["answer"] == "Sent to ***, order ***."
