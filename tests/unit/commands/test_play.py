"""`answerbus play`: recorded runs by the agents of the settings, without Kafka."""

import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from answerbus.agent import RunSummary
from answerbus.cassette import Cassette, RecordedRequest
from answerbus.outcome import Result
from answerbus.private.runs import AgentDefinition
from answerbus.step import Step, ToolEnded
from answerbus.toolset_card import ApprovalRule
from services import cli
from services.worker.core.run import transitions
from services.worker.core.run.run import Run
from tests.unit.worker.builders import NOW
from tests.unit.worker.core.run_builders import (
    ACCOUNT,
    asked,
    call,
    definition,
    inputs,
    result,
    says,
    sent,
    taken,
    tool,
)

RUNS = 50
PLAYED_IN_S = 10.0
DIGEST = "sha256:" + "0" * 64

SETTINGS = """
[agents.support]
instructions = "You help."
tools = ["orders.get"]
steps_max = 12
"""


def recorded(number: int = 1, approval: ApprovalRule = "never") -> RecordedRequest:
    """A run that has called a tool and answered."""
    agent: AgentDefinition = definition(tool("orders.get", approval=approval))
    first = taken(Run(agent), says("Looking."), call(order_id=str(number)))
    (order,) = sent(first) if approval == "never" else (None,)
    written = [*first.written]
    if order is not None:
        after = transitions.on_result(first.run, result(order, {"state": "sent"}), inputs(1))
        assert after is not None
        written += after.written
    outcome = Result[str](
        event_id="r-1.result",
        request_id="r-1",
        workflow_id="w-0",
        schema={"kind": "text", "digest": DIGEST},  # type: ignore[arg-type]
        attempt=2,
        model={"profile": "default", "provider": "p", "model": "m", "dialect": "prompted"},  # type: ignore[arg-type]
        usage={},  # type: ignore[arg-type]
        account=ACCOUNT,
        requested_at=NOW,
        finished_at=NOW,
        answer="It is sent.",
    )
    events = tuple(one for one in written if isinstance(one, Step | ToolEnded))
    return RecordedRequest(request=asked(), definition=agent, events=events, outcome=outcome)


def play(folder: Path, settings: str, *requests: RecordedRequest) -> tuple[int, str]:
    (folder / "answerbus.toml").write_text(settings)
    files = []
    for number, one in enumerate(requests):
        path = folder / f"{number}.json"
        path.write_text(Cassette(workflow_id="w-0", requests=(one,)).model_dump_json())
        files.append(str(path))
    config = str(folder / "answerbus.toml")
    done = CliRunner().invoke(cli.application(), ["play", *files, "--config", config])
    return done.exit_code, done.output


@pytest.mark.wide
def test_fifty_runs_go_the_same_way_in_ten_seconds(tmp_path: Path) -> None:
    requests = [recorded(number) for number in range(RUNS)]
    began = time.process_time()

    assert play(tmp_path, SETTINGS, *requests) == (
        0,
        "Requests played: 50. Differences: 0.\n",
    )
    assert time.process_time() - began < PLAYED_IN_S


CHANGES = [
    ('"You help."', '"You help fast."', "r-1, step 1: at /instructions"),
    ("steps_max = 12", "steps_max = 2", "r-1, the answer: at /steps_max\n  - 12\n  + 2"),
    (
        "steps_max = 12",
        'approvals = {"orders.get" = "always"}',
        "r-1, step 1: at /tools/0/card/approval\n  - never\n  + always",
    ),
    ("[agents.support]", "[agents.other]", "r-1, the definition of its agent is not known"),
]


@pytest.mark.parametrize(("was", "now", "said"), CHANGES, ids=range(len(CHANGES)))
def test_a_changed_agent_fails_with_the_nearest_place_and_a_diff(
    was: str, now: str, said: str, tmp_path: Path
) -> None:
    code, output = play(tmp_path, SETTINGS.replace(was, now), recorded())

    assert code == 1
    assert said in output
    assert "Differences: 1." in output


def test_a_change_that_no_step_depends_on_is_none(tmp_path: Path) -> None:
    settings = SETTINGS.replace("steps_max = 12", "steps_max = 13")

    assert play(tmp_path, settings, recorded())[0] == 0


@pytest.mark.parametrize(("steps", "code"), [(1, 0), (2, 1)])
def test_a_run_whose_steps_are_not_all_there_cannot_be_played(
    steps: int, code: int, tmp_path: Path
) -> None:
    one = recorded()
    agent = next(one.steps).agent
    ran = RunSummary(agent=agent, steps=steps, tool_calls=1)
    outcome = one.outcome and one.outcome.model_copy(update={"run": ran})
    found = play(tmp_path, SETTINGS, one.model_copy(update={"outcome": outcome}))

    assert found[0] == code
    said = "only 1 of its 2 steps are recorded\n"
    assert found[1].startswith(f"{tmp_path / '0.json'}: r-1, {said}") is bool(code)


def test_a_file_that_is_no_cassette_is_a_wrong_argument(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text('{"kind": "cassette", "version": 7}')
    done = CliRunner().invoke(cli.application(), ["play", str(path)])

    assert done.exit_code == 2
    assert "version 7" in done.output
