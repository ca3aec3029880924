"""What belongs elsewhere after a move, and what is written there; without a broker."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from answerbus.budget import Budget, Spent
from answerbus.envelope import encode
from answerbus.event import Event
from answerbus.outcome import Origin
from answerbus.partition import Layout, partition_of
from answerbus.private.budgets import BudgetLeaseRecord, BudgetShareRecord
from answerbus.private.ledger import (
    LEDGER_RECORD,
    AccountRecord,
    ClosedIdsRecord,
    ClosedRecord,
    InFlight,
    LaneRecord,
    Skipped,
)
from answerbus.request_key import RequestKey
from answerbus.topics import LEDGER, REQUESTS, RETRIES, TOPIC_OF_KIND
from answerbus.wire import bytes_digest
from services.commands.repartitioning.planning.contents import (
    PartitionContents,
    Retained,
    UnreadableRecord,
    begun_records,
    done_records,
    forwarded,
)
from services.operators.records.stored import Stored
from services.worker.core.budget.closed import ClosedIds
from services.worker.core.budget.ledger import Ledger
from services.worker.core.request.admit import admit
from services.worker.lane.opening import RecoveredState
from services.worker.ports.kafka import OutRecord, StoredRecord
from tests.unit.worker import builders
from tests.unit.worker.builders import NOW

OLD, NEW, HERE = 4, 7, 1
WORKFLOWS = [f"order-{n}" for n in range(200)]
OURS = [name for name in WORKFLOWS if partition_of(name, OLD) == HERE]
LEAVING = next(name for name in OURS if partition_of(name, NEW) != HERE)
STAYING = next(name for name in OURS if partition_of(name, NEW) == HERE)
DIGEST = "sha256:" + "0" * 64
COMMITTED = 100


def stored(event: Event, offset: int = 0) -> Stored:
    record = encode(event)
    topic = TOPIC_OF_KIND[event.kind]
    at_ms = int(NOW.timestamp() * 1000)
    return Stored(topic, HERE, offset, at_ms, record.key, record.value, record.headers)


def share(budget: str) -> BudgetShareRecord:
    return BudgetShareRecord(budget=budget, window="2026-11", lane=2, granted=Spent(), at=NOW)


def lane(controls_at: int = 0, leases_at: int = 0) -> LaneRecord:
    return LaneRecord(
        partitions=OLD,
        openings_without_progress=0,
        worker="w",
        at=NOW,
        controls_at=controls_at,
        leases_at=leases_at,
    )


def account(workflow_id: str) -> AccountRecord:
    spend = InFlight(request_id="r-1", attempt=2, tokens=5, micro_usd=7, at=NOW)
    return AccountRecord(
        account_id=workflow_id,
        workflow_id=workflow_id,
        limit=Budget(attempts=3),
        spent=Spent(attempts=1),
        in_flight=(spend,),
        last_attempt_hash=DIGEST,
        updated_at=NOW,
    )


def closed(closes: str, workflow_id: str | None, offset: int = 3) -> ClosedRecord:
    return ClosedRecord(
        closes=closes,
        workflow_id=workflow_id,
        body_digest=DIGEST,
        outcome="result",
        offset=offset,
        at=NOW - timedelta(hours=20),
    )


def held(*events: Event) -> PartitionContents:
    found = PartitionContents(HERE)
    for offset, event in enumerate(events):
        found.take(stored(event, offset))
    return found


def moved(*events: Event) -> Sequence[tuple[OutRecord, ...]]:
    return list(held(*events).moves(NEW, COMMITTED, NOW))


def test_an_account_goes_to_its_new_owner_as_it_is_and_ends_here() -> None:
    ((there, here),) = moved(account(LEAVING), account(STAYING))

    owner = partition_of(LEAVING, NEW)
    assert (there.topic, there.partition, there.value) == (
        LEDGER,
        owner,
        encode(account(LEAVING)).value,
    )
    assert (here.topic, here.partition, here.key, here.value) == (LEDGER, HERE, there.key, None)


def test_the_home_of_a_budget_moves_and_the_leases_of_a_lane_stay() -> None:
    lease = BudgetLeaseRecord(budget=LEAVING, window="2026-11", lane=HERE, at=NOW)
    ((there, here),) = moved(share(LEAVING), share(STAYING), lease)

    assert (there.topic, there.partition) == (LEDGER, partition_of(LEAVING, NEW))
    assert there.value == encode(share(LEAVING)).value
    assert (here.partition, here.key, here.value) == (HERE, there.key, None)


@pytest.mark.parametrize(("offset", "is_young"), [(COMMITTED - 1, False), (COMMITTED, True)])
def test_a_closed_id_whose_record_may_come_again_is_kept_for_another_day(
    offset: int, is_young: bool
) -> None:
    ((there, _),) = moved(closed("r-1", LEAVING, offset))

    written = json.loads(there.value or b"")
    assert written["offset"] == 0
    assert written["at"] == encode_time(NOW if is_young else NOW - timedelta(hours=20))


def encode_time(moment: Any) -> str:
    return str(moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"))


def test_what_is_about_this_partition_stays() -> None:
    lane = LaneRecord(partitions=OLD, openings_without_progress=0, worker="me", at=NOW)

    assert moved(lane, closed("requests-1-3", None), closed("r-2", STAYING)) == []


def test_a_key_that_was_ended_is_not_moved() -> None:
    found = held(account(LEAVING))
    record = stored(account(LEAVING))
    found.take(Stored(LEDGER, HERE, 9, 0, record.key, None, ()))

    assert list(found.moves(NEW, COMMITTED, NOW)) == []


def test_what_cannot_be_read_stops_the_move() -> None:
    found = PartitionContents(HERE)
    found.take(Stored(RETRIES, HERE, 5, 0, b"r-1", b"rubbish", ()))

    with pytest.raises(UnreadableRecord, match=r"retries, partition 1, offset 5, cannot be read"):
        found.check()
    passed_by = Skipped(
        offset=5, digest=bytes_digest(b"rubbish"), problem="p", by="me", reason="r", at=NOW
    )
    skipped = encode(passed_by)
    found.take(Stored(RETRIES, HERE, 6, 0, skipped.key, skipped.value, ()))
    found.check()
    assert list(found.moves(NEW, COMMITTED, NOW)) == []


def test_a_lane_that_opens_knows_nothing_of_what_was_moved_away() -> None:
    recovered = RecoveredState()
    events = account(LEAVING), closed("r-1", LEAVING), share(LEAVING)
    for event in events:
        record = stored(event)
        recovered.take(StoredRecord(LEDGER, record.key, record.value))
    for there, here in moved(*events):
        assert there.value is not None
        recovered.take(StoredRecord(here.topic, here.key, here.value))

    assert recovered.ledger.accounts == {}
    assert recovered.budgets.homes == {}
    assert recovered.ledger.known(RequestKey(LEAVING, "r-1")) is None


def arrival(workflow_id: str, **more: Any) -> Any:
    value = json.dumps(builders.body("r-1", workflow_id)).encode()
    return builders.arrival(value, 17, HERE, NOW, **more)


def test_an_unread_request_is_forwarded_and_its_lane_knows() -> None:
    places = Ledger()
    result = forwarded(arrival(LEAVING), places, NEW, NOW)

    assert isinstance(result, tuple)
    copy, entry = result
    assert (copy.topic, copy.partition) == (REQUESTS, partition_of(LEAVING, NEW))
    assert (entry.topic, entry.partition) == (LEDGER, HERE)
    places.restore(ClosedRecord.model_validate_json(entry.value or b""))
    assert forwarded(arrival(LEAVING), places, NEW, NOW) == Retained(is_done=True)
    assert forwarded(arrival(STAYING), places, NEW, NOW) == Retained(is_done=False)


def test_a_copy_that_was_forwarded_by_the_former_number_is_forwarded_again() -> None:
    headers = [("answerbus_forwarded", b"3/5/%d" % int(NOW.timestamp() * 1000))]
    result = forwarded(arrival(LEAVING, headers=headers), Ledger(), NEW, NOW)

    assert isinstance(result, tuple)
    copy, _ = result
    assert dict(copy.headers)["answerbus_forwarded"] == headers[0][1]
    owner = partition_of(LEAVING, NEW)
    again = builders.arrival(copy.value or b"", 1, owner, NOW, copy.headers)
    assert type(admit(again, Ledger(), {}, NEW)).__name__ == "Admitted"


def test_a_copy_that_comes_back_to_its_first_partition_keeps_its_deadline() -> None:
    """A header that names the partition it is in is not one that a lane writes."""
    owner = partition_of(LEAVING, NEW)
    first = NOW - timedelta(minutes=9)
    headers = [("answerbus_forwarded", b"%d/5/%d" % (owner, int(first.timestamp() * 1000)))]
    result = forwarded(arrival(LEAVING, headers=headers), Ledger(), NEW, NOW)

    assert isinstance(result, tuple)
    place = Origin(topic="t", partition=HERE, offset=17, timestamp=first)
    written = dict(result[0].headers)["answerbus_forwarded"].decode().split("/")
    assert written == [str(HERE), "17", str(int(place.timestamp.timestamp() * 1000))]


def test_lanes_say_where_workflows_were_before() -> None:
    layout, lanes = Layout(OLD, earlier=(12, NEW)), {HERE: lane(controls_at=4, leases_at=5)}
    written = list(done_records(layout, NEW, 9, lanes, "workers", NOW))
    done = [json.loads(record.value) for record in written if record.value is not None]

    assert len(done) == NEW
    assert {(lane["partitions"], tuple(lane["earlier"]), lane["moving_to"]) for lane in done} == {
        (NEW, (OLD, 12), None)
    }
    for name, position in (("controls_at", 4), ("leases_at", 5)):
        assert [one.get(name, 0) for one in done] == [0, position, *[0] * (NEW - 2)]
    ends = [record.partition for record in written if record.value is None]
    assert ends == [7, 8]
    begun = [json.loads(r.value or b"") for r in begun_records(layout, NEW, lanes, "workers", NOW)]
    assert {(lane["partitions"], lane["moving_to"]) for lane in begun} == {(OLD, NEW)}
    homes = Layout(NEW, earlier=(OLD,)).homes(LEAVING)
    assert homes == (partition_of(LEAVING, NEW), HERE)


def test_a_chunk_of_closed_ids_is_divided_among_the_owners_of_its_workflows() -> None:
    ids, place = ClosedIds(), f"{REQUESTS.full_name()}-{HERE}-7"
    for n, workflow_id in enumerate(OURS):
        ids.add(closed(f"r-{n}", workflow_id, offset=n))
    ids.add(closed(place, None, offset=7))
    ((_, chunk), *_) = ids.pack(NOW)
    assert chunk is not None

    ((*records,),) = moved(chunk)

    ledgers: dict[int | None, Ledger] = {}
    for record in records:
        found = ledgers.setdefault(record.partition, Ledger())
        found.restore(LEDGER_RECORD.validate_json(record.value or b""), NOW)
    for n, workflow_id in enumerate(OURS):
        owner = partition_of(workflow_id, NEW)
        assert [
            at for at, found in ledgers.items() if found.known(RequestKey(workflow_id, f"r-{n}"))
        ] == [owner]
    assert ledgers[HERE].known_place(place)
    assert records[-1].key == b"closed_ids:0", "what is left has its number still"
    assert len({record.key for record in records}) == 2, "and what is brought has another"
    assert moved(*(_event(record) for record in records if record.partition == HERE)) == []


def test_a_chunk_that_may_be_read_again_is_kept_as_if_it_were_new() -> None:
    ids = ClosedIds()
    ids.add(closed("old", LEAVING, offset=COMMITTED - 1))
    ((_, done), *_) = ids.pack(NOW)
    ids.add(closed("again", LEAVING, offset=COMMITTED))
    ((_, again), *_) = ids.pack(NOW)
    assert done is not None
    assert again is not None

    untils = [_event(records[0]).until for records in moved(done, again)]

    assert untils == [NOW - timedelta(hours=20), NOW]


def _event(record: OutRecord) -> ClosedIdsRecord:
    event = LEDGER_RECORD.validate_json(record.value or b"")
    assert isinstance(event, ClosedIdsRecord)
    return event
