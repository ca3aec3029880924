"""What a lane finds when it opens: accounts, closed ids, retries, and calls nobody answers for."""

import asyncio
import json
from dataclasses import replace
from datetime import timedelta

import pytest
from aiokafka.errors import ProducerFenced

from answerbus.budget import Usage
from answerbus.dead_letter import Dismissed
from answerbus.envelope import encode
from answerbus.event import Event, key
from answerbus.failure import TimedOut
from answerbus.outcome import Origin, RetryRequest
from answerbus.private.ledger import ClosedIdsRecord, LaneRecord, Skipped
from answerbus.request_key import RequestKey
from answerbus.topics import LEDGER, RETRIES, RUNS, Topic
from answerbus.wire import bytes_digest
from services.worker.core.budget.account import Spend
from services.worker.core.budget.id_chunk import IdChunk, SingleId
from services.worker.core.budget.ledger import Ledger, closed_record
from services.worker.core.outcome import events
from services.worker.core.outcome.decision import Retry
from services.worker.lane.opening import (
    RecoveredState,
    UnreadableState,
    opened,
    restore,
)
from services.worker.lane.recovery import settle_orphaned_calls
from services.worker.lane.state.records import account_record, event_record, retry_tombstone
from services.worker.ports.kafka import LateRecord, Outgoing, OutRecord, StoredRecord
from tests.unit.worker import builders
from tests.unit.worker.builders import NOW, TOPIC, after, case, request
from tests.unit.worker.lane.fakes import Broker, FakeShard
from tests.unit.worker.lane.virtual import on_virtual_time

DIGEST = "sha256:" + "0" * 64


def retry(request_id: str, offset: int = 0, not_before_s: float = 9) -> RetryRequest:
    made = case(request(request_id))
    made.lane_request.origin = Origin(topic=TOPIC, partition=0, offset=offset, timestamp=NOW)
    verdict = Retry((), TimedOut(after_s=1), not_before_s, counted=True)
    written = events.event_of(verdict, made, builders.account(), NOW)
    assert isinstance(written, RetryRequest)
    return written


def chunk_of(request_id: str, number: int) -> ClosedIdsRecord:
    single = SingleId.of(closed_record(request_id, "w-0", DIGEST, "result", 3, NOW), NOW)
    return IdChunk.of(dict([single])).record(str(number), NOW)


def stored(event: Event | Outgoing) -> StoredRecord:
    record = (
        event.written() if isinstance(event, OutRecord | LateRecord) else event_record(event, 0)
    )
    return StoredRecord(record.topic, record.key, record.value)


def restored(*found: Event | Outgoing) -> RecoveredState:
    recovered = RecoveredState()
    for event in found:
        recovered.take(stored(event))
    return recovered


def spent(ledger: Ledger, request_id: str) -> Spend:
    budget = {"attempts": 9}
    spend = ledger.spend(request(request_id, budget=budget), 10, 5, NOW + timedelta(microseconds=7))
    assert isinstance(spend, Spend)
    return spend


def names(recovered: RecoveredState) -> list[str]:
    return [lane_request.request.request_id for lane_request in recovered.requests()]


def test_retries_come_back_in_the_order_in_which_they_first_arrived() -> None:
    recovered = restored(retry("c", 30), retry("a", 10), retry("b", 20), retry("a", 10, 99))

    assert names(recovered) == ["a", "b", "c"]
    assert recovered.requests()[0].life.until == after(99), "the last word counts"


def test_what_was_ended_does_not_come_back_whether_or_not_it_was_compacted() -> None:
    ended = retry_tombstone(RequestKey.of(retry("a")).record_key().encode(), 0)

    assert names(restored(retry("a"), retry("b"), ended)) == ["b"]
    assert names(restored(ended, retry("b"))) == ["b"]
    assert names(restored(retry("a"), ended, retry("a"))) == ["a"]


def test_accounts_and_closed_ids_come_back_as_they_were_last_written() -> None:
    ledger = Ledger()
    spend = spent(ledger, "r-1")
    early = account_record(ledger.accounts["w-0"], 0)
    ledger.settle(spend, builders.answered().facts.usage, after(1), counted=True)
    closed = closed_record("r-1", "w-0", DIGEST, "result", 3, NOW)
    ledger.close(closed, "w-0")

    recovered = restored(early, closed, account_record(ledger.accounts["w-0"], 0))

    assert recovered.ledger == ledger


@pytest.mark.parametrize("off", [timedelta(hours=-26), timedelta(days=-8), timedelta(hours=26)])
def test_what_was_written_by_a_wrong_clock_is_as_old_as_the_broker_says(off: timedelta) -> None:
    ledger = Ledger()
    ledger.settle(spent(ledger, "r-1"), Usage(), NOW + off, counted=True)
    closed = closed_record("r-1", "w-0", DIGEST, "result", 3, NOW + off)
    ledger.close(closed, "w-0")
    recovered = RecoveredState()
    for event in (account_record(ledger.accounts["w-0"], 0), closed):
        recovered.take(replace(stored(event), appended_at=NOW))

    recovered.ledger.forget(after(23 * 3_600), committable=99)
    assert recovered.ledger.known(RequestKey("w-0", "r-1")) is not None
    assert recovered.ledger.accounts["w-0"].spent.attempts == 1
    recovered.ledger.forget(after(25 * 3_600), committable=99)
    assert recovered.ledger.known(RequestKey("w-0", "r-1")) is None
    assert recovered.ledger.account(request("r-2"), after(6 * 86_400)).spent.attempts == 1
    assert recovered.ledger.account(request("r-2"), after(8 * 86_400)).spent.attempts == 0


@pytest.mark.parametrize(
    ("topic", "value"),
    [
        (LEDGER, b'{"kind":"account","v":2}'),
        (LEDGER, b"nonsense"),
        (RETRIES, b"\xff"),
        (RETRIES, b'{"kind":"retry_request"}'),
        (RUNS, b'{"kind":"run_step"}'),
        (LEDGER, encode(Dismissed(dead_letter_id="x", by="a", reason="b", at=NOW)).value),
    ],
)
def test_what_this_version_does_not_understand_keeps_the_lane_shut(
    topic: Topic, value: bytes
) -> None:
    recovered = RecoveredState()
    recovered.take(StoredRecord(topic, b"key", value, offset=17))

    with pytest.raises(UnreadableState, match=rf"^{topic.name}, offset 17, cannot be read: "):
        recovered.check()


@pytest.mark.parametrize(
    ("change", "is_newer"), [({"v": 3}, True), ({"partitions": 0}, False), ({"v": 1}, None)]
)
def test_only_what_a_newer_version_has_written_is_left_to_it(
    change: dict[str, int], is_newer: bool | None
) -> None:
    lane = opened(Ledger(), 12, "me", NOW).model_dump(mode="json") | change
    recovered = RecoveredState()
    recovered.take(StoredRecord(LEDGER, b"lane", json.dumps(lane).encode(), offset=17))

    if is_newer is None:
        recovered.check()
        return
    with pytest.raises(UnreadableState) as raised:
        recovered.check()
    assert ("a newer version of answerbus has written it" in str(raised.value)) is is_newer
    assert ("lanes skip" in str(raised.value)) is not is_newer


@pytest.mark.parametrize("topic", [LEDGER, RETRIES, RUNS])
def test_what_an_operator_has_passed_by_keeps_no_lane_shut(topic: Topic) -> None:
    passed_by, other = b"nonsense", b"more nonsense"
    recovered = RecoveredState()
    recovered.take(StoredRecord(topic, b"a", passed_by, offset=17))
    recovered.take(StoredRecord(topic, b"b", b"\0", offset=18, fault="not to be parsed"))
    recovered.take(StoredRecord(topic, b"c", other, offset=20))
    skips = [skipped(17, passed_by), skipped(18, b""), skipped(20, b"another record of old")]
    for skip in skips:
        recovered.take(StoredRecord(topic, key(skip).encode(), encode(skip).value, offset=30))

    assert [offset for _, offset, _ in recovered.unreadable] == [20]
    with pytest.raises(UnreadableState, match="offset 20, cannot be read"):
        recovered.check()
    recovered.take(StoredRecord(topic, b"d", encode(skipped(20, other)).value, offset=31))
    recovered.check()


def skipped(offset: int, value: bytes) -> Skipped:
    return Skipped(
        offset=offset, digest=bytes_digest(value), problem="?", by="ops", reason="why", at=NOW
    )


def test_a_record_that_no_worker_could_work_with_is_unreadable_too() -> None:
    """It would raise behind the reading, at each opening again."""
    recovered = RecoveredState()
    closed = json.loads(encode(closed_record("r-1", "w-0", DIGEST, "result", 3, NOW)).value)
    recovered.take(StoredRecord(LEDGER, b"a", json.dumps({**closed, "offset": 2**63}).encode()))
    late = json.loads(encode(retry("r-1")).value)
    late["origin"]["timestamp"] = "9999-12-31T23:59:59.000Z"
    recovered.take(StoredRecord(RETRIES, b"r-1", json.dumps(late).encode()))

    chunk = json.loads(stored(chunk_of("r-1", 1)).value or b"")
    late_chunk = {**chunk, "until": "9999-12-31T23:59:59.000Z"}
    for offset, wrong in enumerate((late_chunk, {**chunk, "chunk": "9" * 5_000}, "rubbish")):
        name = b"closed_ids:" + b"9" * 5_000
        recovered.take(StoredRecord(LEDGER, name, json.dumps(wrong).encode(), offset=offset + 1))

    assert len(recovered.unreadable) == 5
    assert names(recovered) == []


def test_openings_are_counted_and_another_number_of_partitions_is_refused() -> None:
    ledger = Ledger()
    for count in (1, 2, 3):
        ledger.lane = opened(ledger, 12, "me", NOW)

        assert ledger.lane == LaneRecord(
            partitions=12, openings_without_progress=count, worker="me", at=NOW
        )
    with pytest.raises(UnreadableState):
        opened(ledger, 13, "me", NOW)


def test_each_spend_that_is_found_open_is_settled_as_what_it_is() -> None:
    """Ours go on, what never began is given back, a predecessor's calls are charged."""
    ledger = Ledger()
    ours, unused, theirs = (spent(ledger, name) for name in ("ours", "unused", "theirs"))
    recovered = restored(account_record(ledger.accounts["w-0"], 0)).ledger

    attempts = settle_orphaned_calls(recovered, {ours}, {unused}, after(5), "me")

    assert [(a.request_id, a.outcome, a.counted) for a in attempts] == [
        ("unused", "released", False),
        ("theirs", "unknown", True),
    ]
    assert attempts[1].previous == attempts[0].hash
    account = recovered.accounts["w-0"]
    assert (account.spent.attempts, list(account.in_flight.values())) == (1, [ours])
    assert recovered.holds(ours)
    assert not recovered.holds(theirs)
    assert settle_orphaned_calls(recovered, {ours}, {unused}, after(6), "me") == []


@on_virtual_time
async def test_the_predecessor_is_shut_out_before_its_records_are_read() -> None:
    """What it was about to commit is either read or will never happen."""
    broker = Broker()
    old, new = FakeShard(broker, 0), FakeShard(broker, 0)
    await old.fence()
    committing = asyncio.create_task(old.commit([event_record(retry("late"), 0)], 7))
    await asyncio.sleep(0)
    recovered = await restore(new, "me", 30)

    assert ("late" in names(recovered)) == (broker.offsets.get(0) == 7)
    outcome = (await asyncio.gather(committing, return_exceptions=True))[0]
    assert (outcome is None) == ("late" in names(recovered))
    with pytest.raises(ProducerFenced):
        await old.commit([event_record(retry("later"), 0)], 8)
    assert broker.offsets.get(0) != 8


def test_to_pass_by_a_retry_hides_no_missing_chunk_at_the_same_offset_of_the_ledger() -> None:
    recovered = RecoveredState()
    for number, offset in ((1, 4), (3, 17)):
        recovered.take(replace(stored(chunk_of(f"r-{number}", number)), offset=offset))
    skip = encode(skipped(17, b"nonsense"))
    recovered.take(StoredRecord(RETRIES, skip.key, skip.value, offset=18))

    with pytest.raises(UnreadableState, match=r"^ledger, offset 17, .* chunk 2, before this one"):
        recovered.settle()
