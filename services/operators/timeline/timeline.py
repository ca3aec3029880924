"""Everything that happened to a workflow, from the records of all topics, in one order; pure."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import assert_never

from answerbus.attempt import Attempt
from answerbus.call_id import attempt_of_call
from answerbus.compared import Compared
from answerbus.continued_call import ToolContinue
from answerbus.control import ApprovalRequested
from answerbus.dead_letter import DeadLetter, Dismissed, Replayed
from answerbus.envelope import Undecodable
from answerbus.nearly_spent import BudgetNearlySpent
from answerbus.outcome import Origin, Refusal, Result, RetryRequest, UnvalidatedResult
from answerbus.private.budgets import BudgetLeaseRecord, BudgetShareRecord
from answerbus.private.ledger import (
    AccountRecord,
    ClosedIdsRecord,
    ClosedRecord,
    LaneRecord,
    Skipped,
)
from answerbus.private.runs import RunStepRecord
from answerbus.reconcile import ToolReconcile, ToolReconciled
from answerbus.request import Request
from answerbus.run_event import RunEvent
from answerbus.step import Step, ToolEnded
from answerbus.tool_call import ToolCallRecord, ToolCancel
from answerbus.tool_result import ToolProgress, ToolResult
from answerbus.toolset_card import ToolAccepted, ToolsetCard
from answerbus.topics import REQUESTS
from services.operators.records.decoded import DecodedRecord, decoded
from services.operators.records.stored import RecordPosition, RetryEnded, Stored
from services.operators.timeline.entry import DEAD_LETTER_SUFFIX, TimelineEntry, entry_of
from services.records.forwarding import first_place

CLOCK_SKEW_MAX = timedelta(minutes=5)  # a cause that seems later by more than this is none
_SIGNS_MAX = 64  # workflows
_AGAIN = frozenset({"duplicate", "conflict"})  # what comes again is not a cause of what follows


def may_concern(workflow_id: str, stored: Stored) -> bool:
    """Whether a record is worth being decoded for `timeline`: cheap, and never wrongly False.

    The id is in what concerns it, unless the writer has escaped some of its characters.
    Older events of operators and ends of retries do not name their workflow.
    """
    value = stored.value
    if value is None or workflow_id.encode() in value:
        return True
    return any(sign in value for sign in _signs(workflow_id))


@lru_cache(_SIGNS_MAX)
def _signs(workflow_id: str) -> tuple[bytes, ...]:
    """What a record has in it that may be about the workflow without spelling its id."""
    is_plain = workflow_id.isprintable() and not set(workflow_id) & set('"/\\')
    escapes = b"\\u" if is_plain else b"\\"
    return (escapes, b'"replayed"', b'"dismissed"', b'"workflow_id":null')


def timeline(workflow_id: str, records: Iterable[Stored]) -> tuple[TimelineEntry, ...]:
    """What happened to the workflow, causes before effects, also where clocks disagree a little.

    Records of other workflows may be among those given; a record that is given twice counts once.
    """
    held = {stored.place: stored for stored in records if may_concern(workflow_id, stored)}
    found = [(stored, decoded(stored)) for stored in held.values()]
    own = [(stored, record) for stored, record in found if record.workflow_id == workflow_id]
    events = [record for _, record in own]
    entries = [*_requests(own), *_calls_in_flight(events)]
    entries += [
        entry_of(record)
        for record in (*events, *_related(events, (record for _, record in found)))
        if not isinstance(record.event, Request | AccountRecord | LaneRecord | Skipped)
    ]
    return tuple(_in_order(entries))


def origin_of(stored: Stored) -> RecordPosition | None:
    """Where a forwarded copy was first."""
    if stored.topic is not REQUESTS:
        return None
    here = Origin(topic="", partition=stored.partition, offset=stored.offset, timestamp=stored.at)
    origin = first_place(stored.headers, here)
    return RecordPosition(REQUESTS, origin.partition, origin.offset) if origin else None


def _related(
    own: Sequence[DecodedRecord], found: Iterable[DecodedRecord]
) -> Iterator[DecodedRecord]:
    """What belongs to the workflow without naming it."""
    requests = {record.subject for record in own}
    dead_letters = {f"{request}{DEAD_LETTER_SUFFIX}" for request in requests}
    dead_letters |= {
        record.event.dead_letter_id for record in own if isinstance(record.event, DeadLetter)
    }
    places = tuple(
        f"{REQUESTS.full_name('')}-{record.partition}-{record.offset}"
        for record in own
        if record.topic is REQUESTS
    )
    for record in found:
        match record.event:
            case RetryEnded(request_id=request, workflow_id=None) if request in requests:
                yield record
            case (Replayed(workflow_id=None) | Dismissed(workflow_id=None)) as event if (
                event.dead_letter_id in dead_letters
            ):
                yield record
            case ClosedRecord(workflow_id=None, closes=closed) if closed.endswith(places):
                yield record
            case _:
                pass


def _requests(own: Iterable[tuple[Stored, DecodedRecord]]) -> Iterator[TimelineEntry]:
    """The requests: as they were asked first, forwarded, and asked again."""
    requests: dict[str, Request] = {}
    for stored, record in sorted(own, key=lambda pair: (pair[1].at, pair[1].offset)):
        request = record.event
        if not isinstance(request, Request):
            continue
        first = requests.setdefault(request.request_id, request)
        if origin := origin_of(stored):
            place = f"partition {origin.partition}, offset {origin.offset}"
            yield entry_of(record, "forwarded", f"forwarded from {place}, to where it belongs")
        elif first is request:
            yield entry_of(record)
        elif first == request:
            yield entry_of(record, "duplicate", "asked again with the same body: a duplicate")
        else:
            yield entry_of(
                record, "conflict", "asked with another body under a known id: a conflict"
            )


def _calls_in_flight(own: Iterable[DecodedRecord]) -> Iterator[TimelineEntry]:
    """The spends that the ledger, as it was written last, has not settled."""
    accounts: dict[str, tuple[DecodedRecord, AccountRecord]] = {}
    settled: set[tuple[str, int]] = set()
    for record in own:
        match record.event:
            case AccountRecord() as account:
                known = accounts.get(account.account_id)
                if known is None or known[0].offset < record.offset:
                    accounts[account.account_id] = record, account
            case Attempt() as attempt:
                settled.add((attempt.request_id, attempt.attempt))
            case _:
                pass
    for record, account in accounts.values():
        for spend in account.in_flight:
            if (spend.request_id, spend.attempt) not in settled:
                text = f"attempt {spend.attempt} is paid for, and its outcome is not known yet"
                yield TimelineEntry(spend.at, "in_flight", spend.request_id, text, record)


def _in_order(entries: Iterable[TimelineEntry]) -> Iterator[TimelineEntry]:
    """By time, but what follows from something comes after it, as far as clocks may disagree."""
    groups: dict[str | None, list[TimelineEntry]] = defaultdict(list)
    for entry in entries:
        groups[entry.request_id].append(entry)
    replayed_at: dict[str | None, datetime] = {}
    placed: list[tuple[datetime, int, TimelineEntry]] = []
    for request in sorted(groups, key=lambda name: _first_appended(groups[name])):
        latest = replayed_at.get(request)
        for entry in sorted(groups[request], key=_stage):
            at = entry.at
            if entry.kind not in _AGAIN:
                at = latest = _not_before(entry.at, latest)
            placed.append((at, len(placed), entry))
            if isinstance(entry.seen.event, Replayed):
                replayed_at[entry.seen.event.request_id] = at
    return (entry for _, _, entry in sorted(placed, key=lambda place: place[:2]))


def _not_before(at: datetime, cause: datetime | None) -> datetime:
    return cause if cause is not None and timedelta() < cause - at <= CLOCK_SKEW_MAX else at


def _first_appended(group: Sequence[TimelineEntry]) -> tuple[int, datetime]:
    """Rounds of a replay one after the other, since one's end is the next one's cause."""
    events = (entry.seen.event for entry in group)
    replays = (event.replay for event in events if isinstance(event, Request))
    rounds = [replay.round for replay in replays if replay]
    return max(rounds, default=0), min(entry.at for entry in group)


def _stage(entry: TimelineEntry) -> tuple[float, int, datetime, int]:
    """How far a request has come: the number of its attempt, what is said of it, and when."""
    return *_step(entry.seen), entry.at, entry.seen.offset


def _step(  # noqa: C901, PLR0912 - one arm for each event
    record: DecodedRecord,
) -> tuple[float, int]:
    match record.event:
        case Request() | Undecodable() | ClosedIdsRecord() | LaneRecord() | Skipped():
            return 0, 0
        case BudgetLeaseRecord() | BudgetShareRecord() | BudgetNearlySpent():
            return 0, 0
        case Attempt() as event:
            return event.attempt, 0
        case RetryRequest() as event:
            return event.next_attempt - 1, 1
        case (Result() | UnvalidatedResult() | Refusal()) as event:
            return event.attempt, 2
        case AccountRecord() | ToolCancel() | ToolResult() | ToolProgress():
            return math.inf, 0
        case ToolContinue() | ToolReconcile() | ToolReconciled() | ToolsetCard() | ToolAccepted():
            return math.inf, 0
        case DeadLetter():
            return math.inf, 1
        case RetryEnded():
            return math.inf, 2
        case ClosedRecord():
            return math.inf, 3
        case Replayed() | Dismissed() | Compared():
            return math.inf, 4
        case (ToolCallRecord() | Step() | RunStepRecord()) as event:
            return event.attempt, 1
        case ApprovalRequested(call_id=call_id):
            return _attempt_of(call_id), 2
        case ToolEnded(call_id=call_id):
            return _attempt_of(call_id), 3
        case other if isinstance(other, RunEvent):
            return math.inf, 0
        case other:
            assert_never(other)


def _attempt_of(call_id: str) -> float:
    """The attempt whose answer asked for the call; its id says it."""
    found = attempt_of_call(call_id)
    return math.inf if found is None else found
