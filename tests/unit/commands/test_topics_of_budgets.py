"""Budgets need the topics of runs as agents do: where these are made, looked for, and checked."""

from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

import pytest
from typer.testing import CliRunner

from answerbus.client import BusUnavailable
from answerbus.private.runs import AgentDefinition
from answerbus.topics import RUN_TOPICS, TOPICS, Topic
from services.commands import topics
from services.commands.doctor import broker, examine
from services.settings.secrets import mask_of
from services.settings.settings import Settings, SettingsFile, SetUpError
from services.worker import main
from services.worker.adapters.kafka import broker_check
from services.worker.core.run.agents import Agent, Agents

BUDGETS = '[budgets."tenant:*"]\ncalls = {day = 9}\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "answerbus.toml"
    path.write_text(BUDGETS)
    return path


def test_topics_apply_makes_them(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Topic] = []

    async def applied(_: object, wanted: Iterable[Topic], *, dry_run: bool) -> tuple[()]:
        made.extend(wanted)
        assert not dry_run
        return ()

    monkeypatch.setattr(topics, "applied", applied)
    done = CliRunner().invoke(topics.app, ["apply", "--config", str(file)])

    assert done.exit_code == 0, done.output
    assert made == [*TOPICS, *RUN_TOPICS]


async def test_the_doctor_looks_for_them(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Topic] = []

    async def inspect_broker(*given: object) -> NoReturn:
        assert isinstance(given[-1], tuple)
        looked.extend(given[-1])
        raise BusUnavailable("It is away.")

    monkeypatch.setattr(broker, "inspect_broker", inspect_broker)
    _ = [finding async for finding in examine.examined(file)]

    assert looked == [*RUN_TOPICS]


@pytest.mark.parametrize(
    ("budgets", "agents", "needs"),
    [({}, 0, False), ({"tenant:*": {}}, 0, True), ({}, 1, True)],
    ids=["neither", "budgets", "agents of a distribution"],
)
async def test_a_worker_does_not_start_without_them(
    budgets: dict[str, object], agents: int, *, needs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[bool] = []

    async def layout(_: object, *, needs_runs: bool) -> NoReturn:
        found.append(needs_runs)
        raise SetUpError("They are missing.")

    outline = AgentDefinition(name="support", version=1, instructions="Help.")
    known = Agents(Agent(outline) for _ in range(agents))
    monkeypatch.setattr(main, "known_agents", lambda _: known)
    monkeypatch.setattr(broker_check, "deployment_layout", layout)
    settings = Settings.model_validate({"budgets": budgets})
    with pytest.raises(SetUpError):
        await main.run(settings, SettingsFile(None), mask_of(settings))

    assert found == [needs]
