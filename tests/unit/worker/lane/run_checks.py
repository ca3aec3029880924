"""What holds of every history of runs in a lane, once it has come to rest."""

from collections.abc import Iterator
from datetime import timedelta

from answerbus.topics import ATTEMPTS, DEAD_LETTERS, STEPS, Topic
from services.operators.audit.findings import AuditFinding
from services.operators.audit.verification import ACCOUNT_MEMORY
from services.operators.records.stored import Stored
from tests.unit.operators.audit.verifying import CLAIMING, verified
from tests.unit.worker.lane.run_world import RunStage
from tests.unit.worker.lane.stage import Stage
from tests.unit.worker.lane.world import audit, done, events, until


def check(stage: RunStage) -> None:
    """A1, A2, A4, A5 and A12 over what is in the topics."""
    audit(stage.broker, stage.provider)
    assert stage.open_records() == {}, "no private record is left of what has ended"
    calls = [(call["call_id"], call["delivery"]) for call in stage.calls()]
    assert len(calls) == len(set(calls)), "each delivery of a call is published once"
    asked = [made["call_id"] for step in stage.steps("step") for made in step["calls"]]
    ended = [one["call_id"] for one in stage.steps("tool_ended")]
    assert sorted(ended) == sorted(asked), "each call ends once"
    assert {call_id for call_id, _ in calls} <= set(asked), "only calls of committed steps"
    assert breaks(stage) == [], "the audit of operators finds nothing"


def breaks(
    stage: RunStage | Stage, account_memory: timedelta = ACCOUNT_MEMORY
) -> list[AuditFinding]:
    """What `answerbus audit verify` says of accounts, steps and ends of calls."""
    records = [*stored_in(stage, *CLAIMING, ATTEMPTS, STEPS)]
    return verified(records, account_memory=account_memory).breaks


def stored_in(stage: RunStage | Stage, *topics: Topic) -> Iterator[Stored]:
    """The records of topics, as operators read them."""
    for topic in topics:
        for record in stage.broker.log(topic).records:
            at_ms = int(record.at.timestamp() * 1000)
            yield Stored(topic, 0, record.offset, at_ms, record.key, record.value, record.headers)


async def finished(stage: RunStage, limit_s: float = 900.0) -> None:
    await until(lambda: done(stage.broker, stage.names), limit_s)
    await stage.end()
    check(stage)


def cause(stage: RunStage, name: str) -> str:
    dead_letters = {event["request_id"]: event for event in events(stage.broker, DEAD_LETTERS)}
    return str(dead_letters[name]["cause"]["kind"])
