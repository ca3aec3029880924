"""What the doctor says to a user who may not do what a worker does."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiokafka.errors import GroupAuthorizationFailedError, KafkaConnectionError, KafkaError

from answerbus.client.bus import Bus
from services.commands.doctor import broker, examine
from services.kafka.planning.rights import Right

GROUP = "acme.worker"


async def said(error: KafkaError, monkeypatch: pytest.MonkeyPatch, folder: Path) -> str:
    """Of the broker, where a look at it ends so."""

    async def refused(bus: Bus, *_: Any) -> Mapping[str, Any]:
        with bus.explained():
            raise error

    monkeypatch.setattr(broker, "inspect_broker", refused)
    file = folder / "answerbus.toml"
    file.write_text('[kafka]\nbootstrap_servers = "localhost:1"\n')
    (found,) = [one async for one in examine.examined(file) if one.about == "broker"]
    assert found.verdict == "wrong"
    return found.said


async def test_an_app_is_pointed_to_the_doctor_of_its_role(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    reported = await said(GroupAuthorizationFailedError(GROUP), monkeypatch, tmp_path)

    assert f"no right to the consumer group {GROUP}" in reported
    assert reported.endswith(
        "`answerbus doctor --as ROLE` looks only at those of a user's own role."
    )


async def test_a_broker_that_is_away_has_nothing_to_do_with_roles(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert "--as" not in await said(KafkaConnectionError(), monkeypatch, tmp_path)


BUDGET = '[budgets."tenant:acme"]\ncalls = {day = 10}\n'


@pytest.mark.parametrize(("settings", "verdict"), [("", "warning"), (BUDGET, "wrong")])
async def test_a_worker_with_budgets_needs_the_topics_of_runs(
    settings: str, verdict: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def held(_bus: Bus, rights: Sequence[Right]) -> Mapping[Right, bool]:
        return {right: right.name != "acme.controls.v1" for right in rights}

    monkeypatch.setattr(examine, "held_rights", held)
    file = tmp_path / "answerbus.toml"
    file.write_text(f'[kafka]\ntopic_prefix = "acme"\n{settings}')
    found = [one async for one in examine.examined_as("worker", None, file)]
    (missing,) = [one for one in found if "no right to Read" in one.said]
    assert missing.verdict == verdict
