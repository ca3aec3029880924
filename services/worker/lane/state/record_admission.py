"""A record that has just arrived in a lane: its request is queued, or its outcome is written."""

from dataclasses import replace
from datetime import datetime
from math import floor
from typing import assert_never

from answerbus.dead_letter import CrashedWorker, RequestTooLarge
from answerbus.envelope import ReceivedRequest
from answerbus.private.ledger import ClosedOutcome
from answerbus.request_key import RequestKey
from services.worker.core.request.admit import (
    Admitted,
    Arrival,
    Duplicate,
    Misrouted,
    UnfitRequest,
    admit,
    unfit,
)
from services.worker.core.request.lane_request import AtOffset, request_from_arrival
from services.worker.core.run.children import adopted
from services.worker.lane.state import records
from services.worker.lane.state.lane_state import LaneState
from services.worker.lane.state.open_children import parent_key
from services.worker.lane.state.records import LaneWrite
from services.worker.ports.kafka import OutRecord


def admit_record(lane_state: LaneState, arrival: Arrival, now: datetime) -> LaneWrite | None:
    """Gives what is to be written now: nothing for a request that was queued."""
    offset, watermark = arrival.place.offset, lane_state.watermark
    if not watermark.deliver(offset):
        return None
    lane_state.ledger.forget(now, watermark.committable)
    admission = admit(arrival, lane_state.ledger, lane_state.queue.digests, lane_state.partitions)
    match admission:
        case Admitted():
            _queue(lane_state, arrival, lane_state.complete(admission), now)
            return None
        case Duplicate():
            if not _is_held(lane_state, arrival):
                lane_state.counters.duplicates += 1
                watermark.finish(offset)
            return lane_state.writing()
        case Misrouted(workflow_id=workflow_id, owner=owner):
            copy = records.forwarded_record(arrival, workflow_id, owner)
            if not lane_state.oversized.may_fit(copy):  # the limit of its own topic was lowered
                return _reject(lane_state, arrival, unfit(RequestTooLarge(), arrival.decoded), now)
            lane_state.counters.forwarded += 1
            return _dispose(lane_state, arrival, copy, "forwarded", now)
        case UnfitRequest():
            lane_state.counters.unreadable += not arrival.readable
            return _reject(lane_state, arrival, admission, now)
        case _:
            assert_never(admission)


def give_up_record(
    lane_state: LaneState, arrival: Arrival, crashes: int, now: datetime
) -> LaneWrite | None:
    """End a record that must not be decoded."""
    offset = arrival.place.offset
    if not lane_state.watermark.deliver(offset):
        return None
    lane_state.suspects.pass_record(offset)
    if lane_state.ledger.known_place(arrival.place_id):
        lane_state.watermark.finish(offset)
        return lane_state.writing()
    crashed = UnfitRequest(CrashedWorker(openings=crashes), None, None)
    return _reject(lane_state, arrival, crashed, now)


def _queue(lane_state: LaneState, arrival: Arrival, admitted: Admitted, now: datetime) -> None:
    queue = lane_state.queue
    lane_request = request_from_arrival(arrival, _as_child(lane_state, arrival, admitted))
    note = lane_state.ledger.take_in(lane_request.request, arrival.place, now)
    if note is not None:
        lane_request.add_note(note)
    queue.put(lane_request)
    lane_state.cancel_if_asked(lane_request)
    above = queue.children.parent_of(lane_request)
    if above and above.cancelled:
        queue.cancel(lane_request, above.cancelled)
    lane_state.observer.admitted(lane_request)


def _as_child(lane_state: LaneState, arrival: Arrival, admitted: Admitted) -> Admitted:
    """A request that names an open run of its workflow has its account, and at most its time."""
    parent = parent_key(admitted.request)
    above = lane_state.queue.requests.get(parent) if parent else None
    if above is None:
        return admitted
    left_s = floor(above.seconds_left(arrival.origin.timestamp))
    return replace(admitted, request=adopted(admitted.request, above.request, left_s))


def _is_held(lane_state: LaneState, arrival: Arrival) -> bool:
    """Whether this is the record of a request that outlived a reopening, or becomes that."""
    if not isinstance(arrival.decoded, ReceivedRequest):
        return False
    key = RequestKey.of(arrival.decoded.request)
    lane_request = lane_state.queue.requests.get(key)
    if lane_request is None:
        return False
    if not lane_state.ledger.known(key):  # else its outcome is being committed
        lane_request.find_record(arrival.place.offset)
    return lane_request.progress.stored == AtOffset(arrival.place.offset)


def _reject(
    lane_state: LaneState, arrival: Arrival, rejected: UnfitRequest, now: datetime
) -> LaneWrite:
    dead_letter = records.unfit_dead_letter(rejected, arrival, now)
    home = records.home_partition(lane_state.partition, lane_state.partitions)
    lane_state.observer.rejected(dead_letter)
    record = records.unfit_record(dead_letter, arrival, home, lane_state.oversized)
    return _dispose(lane_state, arrival, record, "dead_letter", now)


def _dispose(
    lane_state: LaneState,
    arrival: Arrival,
    record: OutRecord,
    outcome: ClosedOutcome,
    now: datetime,
) -> LaneWrite:
    closed = records.closed_position(arrival, outcome, lane_state.partitions, now)
    lane_state.ledger.close(closed, None)
    lane_state.watermark.finish(arrival.place.offset)
    home = records.home_partition(lane_state.partition, lane_state.partitions)
    return lane_state.writing(record, records.event_record(closed, home))
