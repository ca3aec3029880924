"""Two workflows of one partition that use the same request ids: neither notices the other."""

import json
from collections import Counter

import pytest

from answerbus.dead_letter import ConflictingId, DeadLetter
from answerbus.envelope import decode, encode
from answerbus.partition import partition_of
from answerbus.private.ledger import CLOSED_KEY, ClosedRecord, LaneRecord
from answerbus.request_key import RequestKey
from answerbus.topics import DEAD_LETTERS, LEDGER, RESULTS, RETRIES, RUNS
from services.records.private_topics import private_event
from services.worker.core.attempt.reply import TimedOut
from services.worker.core.outcome.decision import Decision
from services.worker.core.request.lane_request import InRetries
from services.worker.lane.opening import RecoveredState
from services.worker.lane.state.lane_state import LaneState
from services.worker.lane.state.records import LaneWrite
from services.worker.ports.kafka import LateRecord, OutRecord, StoredRecord
from tests.unit.worker.builders import NOW, PARTITIONS, after, body, lane_state, workflow_of
from tests.unit.worker.core.run_builders import actions, call, says
from tests.unit.worker.lane.delegating import DelegatingStage
from tests.unit.worker.lane.run_world import RunStage
from tests.unit.worker.lane.state.test_lane_state import arrive, called, settled
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.lane.world import events, until

OURS, OTHER = workflow_of(0), workflow_of(0, 1)
CHILDREN = 2  # of a run of DelegatingStage
BOTH = [RequestKey(name, "r-1") for name in (OURS, OTHER)]


def both_asked() -> LaneState:
    lane = lane_state()
    for offset, key in enumerate(BOTH):
        assert arrive(lane, body(key.request_id, key.workflow_id), offset) is None
    return lane


def kept(*writes: LaneWrite) -> list[StoredRecord]:
    """What is left of these writes once their topics are compacted."""
    last: dict[tuple[str, bytes | None], StoredRecord] = {}
    for write in writes:
        for record in write.records:
            out = record.written() if isinstance(record, LateRecord) else record
            assert isinstance(out, OutRecord)
            if out.topic in (LEDGER, RETRIES, RUNS):
                stored = StoredRecord(out.topic, out.key, out.value)
                last[out.topic.name, out.key] = stored
    return list(last.values())


def reopened(records: list[StoredRecord]) -> RecoveredState:
    recovered = RecoveredState()
    for record in records:
        recovered.take(record)
    recovered.settle()
    return recovered


def test_both_are_admitted_and_a_copy_of_each_is_one_of_its_own() -> None:
    assert {partition_of(key.workflow_id, PARTITIONS) for key in BOTH} == {0}
    lane = both_asked()

    assert [*lane.queue.requests] == BOTH
    for offset, key in enumerate(BOTH, start=2):
        arrive(lane, body(key.request_id, key.workflow_id), offset)
    assert (lane.counters.duplicates, len(lane.queue)) == (2, 2)


def test_another_body_is_a_conflict_within_its_own_workflow_alone() -> None:
    lane = both_asked()
    write = arrive(lane, body("r-1", OTHER, labels={"other": "body"}), 2)

    assert write
    (dead_letter,) = [
        event
        for one in write.records
        if isinstance(one, OutRecord) and isinstance(event := decode(one.value), DeadLetter)
    ]
    assert isinstance(dead_letter.cause, ConflictingId)
    assert dead_letter.workflow_id == OTHER


def test_retries_and_closed_ids_of_both_outlive_compaction() -> None:
    lane, writes = both_asked(), list[LaneWrite]()
    lane_requests = [one for _ in BOTH if (one := lane.queue.take())]
    decisions = list[Decision]()
    for lane_request in lane_requests:
        decision, write = settled(lane, called(lane, lane_request, TimedOut(9.0)))
        decisions.append(decision)
        writes.append(write)
    again = reopened(kept(*writes))
    assert sorted(lane_request.key for lane_request in again.requests()) == sorted(BOTH)

    lane.queue.wake(after(99))
    first = lane.queue.take()
    assert first
    writes.append(settled(lane, called(lane, first))[1])
    again = reopened(kept(*writes))
    assert [lane_request.key for lane_request in again.requests()] == [
        k for k in BOTH if k != first.key
    ]
    assert [again.ledger.known(key) is not None for key in BOTH] == [k == first.key for k in BOTH]


def of_before(request_id: str, workflow_id: str) -> list[StoredRecord]:
    """A retry and a closed id as a version wrote them whose keys lacked the workflow."""
    lane = lane_state()
    arrive(lane, body(request_id, workflow_id), 0)
    lane_request = lane.queue.take()
    assert lane_request
    records = kept(settled(lane, called(lane, lane_request, TimedOut(9.0)))[1])
    (retry,) = [record for record in records if record.topic is RETRIES]
    return [StoredRecord(RETRIES, request_id.encode(), retry.value)]


def test_a_retry_under_a_key_of_before_is_ended_by_that_key() -> None:
    records = of_before("r-1", OURS)
    recovered = reopened(records)
    (lane_request,) = recovered.requests()
    assert (lane_request.key, lane_request.progress.stored) == (BOTH[0], InRetries(b"r-1"))

    lane = lane_state(ledger=recovered.ledger)
    lane.queue.put(lane_request)
    lane.queue.wake(after(99))
    assert lane.queue.take() is lane_request
    _, write = settled(lane, called(lane, lane_request, TimedOut(9.0)))

    (again,) = reopened([*records, *kept(write)]).requests()
    stored = InRetries(BOTH[0].record_key().encode())
    assert again.progress.stored == stored, "the new key, and the old one is ended"


def test_a_closed_id_under_a_key_of_before_is_known_and_ended_by_that_key() -> None:
    closed = ClosedRecord(
        closes="r-1",
        workflow_id=OURS,
        body_digest="sha256:" + "0" * 64,
        outcome="result",
        offset=1,
        at=NOW,
    )
    value = encode(closed).value
    old = f"{CLOSED_KEY}r-1".encode()
    recovered = reopened([StoredRecord(LEDGER, old, value, offset=1)])

    assert recovered.ledger.known(BOTH[0]) is not None
    recovered.take(StoredRecord(LEDGER, old, None, offset=2))
    assert recovered.ledger.known(BOTH[0]) is None


def test_a_lane_of_this_version_is_one_that_older_workers_keep_shut() -> None:
    """They would end retries under keys that are not theirs."""
    record = LaneRecord(partitions=1, openings_without_progress=1, worker="w", at=NOW)
    assert json.loads(encode(record).value)["v"] == 2
    before = record.model_copy(update={"v": 1})
    assert private_event(LEDGER, encode(before).value) == before


@on_virtual_time
async def test_runs_of_both_have_calls_and_approvals_of_their_own() -> None:
    stage = RunStage((actions(call("orders.pay")), actions(says("Done."))))
    await stage.worker.open()
    for key in BOTH:
        stage.publish("r-1", workflow_id=key.workflow_id)
    await until(lambda: len(stage.steps("approval_requested")) == len(BOTH))
    asked = {one["workflow_id"]: one for one in stage.steps("approval_requested")}
    approval = {name: asked[OURS][name] for name in ("call_id", "args_digest")}
    approval |= {"kind": "approval", "decision": "approved"}
    stage.control({**approval, "workflow_id": OTHER})
    stage.control({**approval, "workflow_id": OURS})
    await until(lambda: events(stage.broker, RESULTS) != [])
    cancel = {"kind": "cancel", "scope": "request", "request_id": "r-1"}
    stage.control({**cancel, "workflow_id": OTHER})
    await until(lambda: events(stage.broker, DEAD_LETTERS) != [])
    await stage.end()

    effects = [step["effect"] for step in stage.steps("control_applied")]
    assert effects == ["nothing", "approved", "cancelled"]
    (result,), (dead_letter,) = (
        events(stage.broker, RESULTS),
        events(stage.broker, DEAD_LETTERS),
    )
    assert (result["workflow_id"], dead_letter["workflow_id"]) == (OURS, OTHER)
    assert dead_letter["cause"]["kind"] == "cancelled"
    called_ids = {one["workflow_id"]: one["call_id"] for one in stage.calls()}
    assert called_ids == {OURS: asked[OURS]["call_id"]}
    last = {record.key: record.value for record in stage.broker.log(RUNS).records}
    assert set(last.values()) == {None}, "nothing is left of either"


@pytest.mark.parametrize("crashes", [False, True])
@on_virtual_time
async def test_runs_and_children_of_both_go_on_after_a_crash(crashes: bool) -> None:
    stage = DelegatingStage()
    await stage.worker.open()
    for key in BOTH:
        stage.publish("r-1", workflow_id=key.workflow_id)
    await until(lambda: len(stage.provider.calls) >= 3)
    if crashes:
        await stage.crash()
        stage.worker.assign(0)
    await until(lambda: len(stage.outcomes()) == 2 * (1 + CHILDREN), 900)
    await stage.end()

    found = Counter((one["workflow_id"], one["request_id"]) for one in stage.outcomes())
    assert set(found.values()) == {1}, "one terminal each"
    assert {workflow for workflow, _ in found} == {OURS, OTHER}
    assert {one["kind"] for one in stage.outcomes()} == {"result"}
    last = {record.key: record.value for record in stage.broker.log(RUNS).records}
    assert set(last.values()) == {None}, "nothing is left of either"
