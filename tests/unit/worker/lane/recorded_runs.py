"""Runs of a stage, recorded as a cassette and played again by the scripted provider."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from answerbus.cassette import Cassette
from answerbus.envelope import Undecodable, decode
from answerbus.topics import DEAD_LETTERS, REQUESTS, RESULTS, RUNS, STEPS
from services.operators.runs.recording import Recording
from services.worker.adapters.providers.scripted import ScriptedProvider
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import Reply
from tests.unit.worker.lane.fakes import Broker
from tests.unit.worker.lane.run_checks import finished
from tests.unit.worker.lane.run_world import WORKFLOW, RunProvider, RunStage
from tests.unit.worker.lane.virtual import VirtualClock
from tests.unit.worker.lane.world import events


def recording_of(broker: Broker) -> Recording:
    recording = Recording(WORKFLOW)
    for topic in (REQUESTS, RUNS, STEPS, RESULTS, DEAD_LETTERS):
        for record in broker.log(topic).records:
            event = decode(record.value, record.headers)
            if not isinstance(event, Undecodable):
                recording.take(event)
    return recording


def cassette_of(stage: RunStage, *rules: str) -> Cassette:
    found = recording_of(stage.broker).cassette({}, rules)
    assert found is not None
    return found


@dataclass
class PlayingProvider(RunProvider):
    """The scripted provider in the place of a model."""

    scripted: Any = None

    async def ask(self, prompt: Prompt, *, timeout_s: float) -> Reply:
        self.reply = await self.scripted.ask(prompt, timeout_s=timeout_s)
        return await super().ask(prompt, timeout_s=timeout_s)


async def recorded(path: Path, *names: str, **stage: Any) -> Cassette:
    """The cassette of runs that are made for it, as a file too."""
    made = await RunStage.opened(*(names or ("r-1",)), **stage)
    await finished(made)
    cassette = _written(path, cassette_of(made))
    await made.end()
    return cassette


def _written(path: Path, cassette: Cassette) -> Cassette:
    path.write_text(cassette.model_dump_json())
    return cassette


async def played(path: Path, cassette: Cassette, **stage: Any) -> RunStage:
    """The requests of a cassette, answered by it."""
    made = RunStage(**stage)
    scripted = ScriptedProvider(script=path, clock=VirtualClock())
    made.provider = PlayingProvider(steps=(), scripted=scripted)
    await made.crash()  # whose provider is the first one
    await made.worker.open()
    for one in cassette.requests:
        made.broker.publish(one.request.model_dump_json().encode(), 0)
        made.names.append(one.request.request_id)
    await finished(made)
    await made.end()
    return made


def steps_of(stage: RunStage) -> list[Any]:
    """What the runs did, without what differs in each run."""
    return [
        (event["request_id"], event["said"], [(one["tool"], one["args"]) for one in event["calls"]])
        for event in events(stage.broker, STEPS)
        if event["kind"] == "step"
    ]
