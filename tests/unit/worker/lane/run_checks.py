"""What holds of every history of runs in a lane, once it has come to rest."""

from answerbus.topics import DEAD_LETTERS, STEPS
from tests.unit.worker.lane.run_world import RunStage
from tests.unit.worker.lane.world import audit, done, events, until


def check(stage: RunStage) -> None:
    """A1, A2, A4, A5 and A12 over what is in the topics."""
    audit(stage.broker, stage.provider)
    assert stage.open_records() == {}, "no private record is left of what has ended"
    calls = [(one["call_id"], one["delivery"]) for one in stage.calls()]
    assert len(calls) == len(set(calls)), "each delivery of a call is published once"
    asked = [made["call_id"] for step in stage.steps("step") for made in step["calls"]]
    ended = [one["call_id"] for one in stage.steps("tool_ended")]
    assert sorted(ended) == sorted(asked), "each call ends once"
    assert {call_id for call_id, _ in calls} <= set(asked), "only calls of committed steps"
    hashes: dict[str, str | None] = {}
    for event in events(stage.broker, STEPS):
        if event["kind"] in {"step", "tool_ended"}:
            assert event["previous"] == hashes.get(event["request_id"]), "one chain for each run"
            hashes[event["request_id"]] = event["hash"]


async def finished(stage: RunStage, limit_s: float = 900.0) -> None:
    await until(lambda: done(stage.broker, stage.names), limit_s)
    await stage.end()
    check(stage)


def cause(stage: RunStage, name: str) -> str:
    letters = {event["request_id"]: event for event in events(stage.broker, DEAD_LETTERS)}
    return str(letters[name]["cause"]["kind"])
