"""What a lane finds when it opens: accounts, closed ids, retries, and calls nobody answers for."""

import asyncio
import json
from dataclasses import replace
from datetime import timedelta

import pytest

from answerbus.dead_letter import Dismissed
from answerbus.envelope import encode
from answerbus.event import Event, key
from answerbus.failure import TimedOut
from answerbus.ledger import LaneRecord, Skipped
from answerbus.outcome import Origin, RetryRequest
from answerbus.topics import LEDGER, RETRIES, Topic
from services.digest import bytes_digest
from services.worker.core import events
from services.worker.core.account import Spend
from services.worker.core.ledger import Ledger, closed_record
from services.worker.lane.letters import account_record, end_of_retries, record_of
from services.worker.lane.opening import (
    Restored,
    UnreadableState,
    opened,
    restore,
    settle_left_over,
)
from services.worker.ports import LateRecord, Outgoing, OutRecord, StoredRecord
from tests.unit import builders
from tests.unit.builders import NOW, TOPIC, after, case, request
from tests.unit.lane.fakes import Broker, FakeShard, FencedError
from tests.unit.lane.virtual import run

DIGEST = "sha256:" + "0" * 64


def retry(request_id: str, offset: int = 0, not_before_s: float = 9) -> RetryRequest:
    origin = Origin(topic=TOPIC, partition=0, offset=offset, timestamp=NOW)
    failed = TimedOut(after_s=1)
    return events.retry(
        replace(case(request(request_id)), origin=origin),
        failed,
        after(not_before_s),
        builders.account(),
        NOW,
        counted=True,
    )


def stored(event: Event | Outgoing) -> StoredRecord:
    record = event.written() if isinstance(event, OutRecord | LateRecord) else record_of(event, 0)
    return StoredRecord(record.topic, record.key, record.value)


def restored(*found: Event | Outgoing) -> Restored:
    past = Restored()
    for event in found:
        past.take(stored(event))
    return past


def spent(ledger: Ledger, request_id: str) -> Spend:
    budget = {"attempts": 9}
    spend = ledger.spend(request(request_id, budget=budget), 10, 5, NOW + timedelta(microseconds=7))
    assert isinstance(spend, Spend)
    return spend


def names(past: Restored) -> list[str]:
    return [ticket.request.request_id for ticket in past.tickets()]


def test_retries_come_back_in_the_order_in_which_they_first_arrived() -> None:
    past = restored(retry("c", 30), retry("a", 10), retry("b", 20), retry("a", 10, 99))

    assert names(past) == ["a", "b", "c"]
    assert past.tickets()[0].not_before == after(99), "the last word counts"


def test_what_was_ended_does_not_come_back_whether_or_not_it_was_compacted() -> None:
    ended = end_of_retries("a", 0)

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

    past = restored(early, closed, account_record(ledger.accounts["w-0"], 0))

    assert past.ledger == ledger


@pytest.mark.parametrize(
    ("topic", "value"),
    [
        (LEDGER, b'{"kind":"account","v":2}'),
        (LEDGER, b"nonsense"),
        (RETRIES, b"\xff"),
        (RETRIES, b'{"kind":"retry_request"}'),
        (LEDGER, encode(Dismissed(dead_letter_id="x", by="a", reason="b", at=NOW)).value),
    ],
)
def test_what_this_version_does_not_understand_keeps_the_lane_shut(
    topic: Topic, value: bytes
) -> None:
    past = Restored()
    past.take(StoredRecord(topic, b"key", value, offset=17))

    with pytest.raises(UnreadableState, match=rf"^{topic.name}, offset 17, cannot be read: "):
        past.check()


@pytest.mark.parametrize("topic", [LEDGER, RETRIES])
def test_what_an_operator_has_passed_by_keeps_no_lane_shut(topic: Topic) -> None:
    passed_by, other = b"nonsense", b"more nonsense"
    past = Restored()
    past.take(StoredRecord(topic, b"a", passed_by, offset=17))
    past.take(StoredRecord(topic, b"b", b"\0", offset=18, fault="not to be parsed"))
    past.take(StoredRecord(topic, b"c", other, offset=20))
    skips = [skipped(17, passed_by), skipped(18, b""), skipped(20, b"another record of old")]
    for skip in skips:
        past.take(StoredRecord(topic, key(skip).encode(), encode(skip).value, offset=30))

    assert [offset for _, offset, _ in past.unreadable] == [20]
    with pytest.raises(UnreadableState, match="offset 20, cannot be read"):
        past.check()
    past.take(StoredRecord(topic, b"d", encode(skipped(20, other)).value, offset=31))
    past.check()


def skipped(offset: int, value: bytes) -> Skipped:
    return Skipped(
        offset=offset, digest=bytes_digest(value), problem="?", by="ops", reason="why", at=NOW
    )


def test_a_record_that_no_worker_could_work_with_is_unreadable_too() -> None:
    """It would raise behind the reading, at each opening anew."""
    past = Restored()
    closed = json.loads(encode(closed_record("r-1", "w-0", DIGEST, "result", 3, NOW)).value)
    past.take(StoredRecord(LEDGER, b"a", json.dumps({**closed, "offset": 2**63}).encode()))
    late = json.loads(encode(retry("r-1")).value)
    late["origin"]["timestamp"] = "9999-12-31T23:59:59.000Z"
    past.take(StoredRecord(RETRIES, b"r-1", json.dumps(late).encode()))

    assert len(past.unreadable) == 2
    assert names(past) == []


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
    past = restored(account_record(ledger.accounts["w-0"], 0)).ledger

    attempts = settle_left_over(past, {ours}, {unused}, after(5), "me")

    assert [(a.request_id, a.outcome, a.counted) for a in attempts] == [
        ("unused", "released", False),
        ("theirs", "unknown", True),
    ]
    assert attempts[1].previous == attempts[0].hash
    account = past.accounts["w-0"]
    assert (account.spent.attempts, list(account.in_flight.values())) == (1, [ours])
    assert past.holds(ours)
    assert not past.holds(theirs)
    assert settle_left_over(past, {ours}, {unused}, after(6), "me") == []


def test_the_predecessor_is_shut_out_before_its_records_are_read() -> None:
    """What it was about to commit is either read or will never happen."""

    async def main() -> None:
        broker = Broker()
        old, new = FakeShard(broker, 0), FakeShard(broker, 0)
        await old.fence()
        committing = asyncio.create_task(old.commit([record_of(retry("late"), 0)], 7))
        await asyncio.sleep(0)
        past = await restore(new, "me", 30)

        assert ("late" in names(past)) == (broker.offsets.get(0) == 7)
        outcome = (await asyncio.gather(committing, return_exceptions=True))[0]
        assert (outcome is None) == ("late" in names(past))
        with pytest.raises(FencedError):
            await old.commit([record_of(retry("later"), 0)], 8)
        assert broker.offsets.get(0) != 8

    run(main())
