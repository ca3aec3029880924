"""Look for the outcome of a request that was published before."""

from collections.abc import Callable, Collection, Mapping
from functools import partial

from aiokafka import TopicPartition

from answerbus.client.bus import FETCH_WAIT_MS, Bus
from answerbus.client.outcome_reader import outcome_for
from answerbus.client.published_record import PublishedRecord, is_of_record
from answerbus.client.records.batch import Record
from answerbus.client.records.consumer import RecordConsumer, is_behind
from answerbus.client.turns import in_turns
from answerbus.event import AnyOutcome
from answerbus.request_key import RequestKey
from answerbus.topics import OUTCOMES

LOOK_BACK_S = (600, 3 * 3_600, 24 * 3_600)  # the newest first; workers know ids for 24 h
LOOK_BACK_BYTES_MAX = 64 * 1024 * 1024  # of records, in all of that time
_POLL_MS = 1_000

_End = Callable[[Record], AnyOutcome | None]


async def find_outcome(
    bus: Bus,
    request: RequestKey,
    partitions: Collection[int],
    own: PublishedRecord | None = None,
) -> AnyOutcome:
    """The first outcome of the request in these partitions; waits until there is one.

    `own` is the record that was published, where it is known: see `ends_request`. Else a dead
    letter of an invalid record under its id counts where nothing else is there by now.
    """
    consumer, places = bus.consumer(auto_offset_reset="earliest"), bus.places(OUTCOMES, partitions)
    async with bus.running(consumer):
        consumer.assign(places)
        ends: Mapping[TopicPartition, int] = {}
        of_record: AnyOutcome | None = None
        while of_record is None or await is_behind(consumer, ends):
            with bus.explained():
                found = await consumer.getmany(timeout_ms=_POLL_MS)
            for records in found.values():
                async for record in in_turns(records):
                    outcome = outcome_for(record, request, own)
                    if outcome is not None and (own or not is_of_record(outcome)):
                        return outcome
                    of_record = of_record or outcome
            if of_record is not None and not ends:
                with bus.explained():
                    ends = await consumer.end_offsets(places)
    return of_record


async def find_past_outcome(
    bus: Bus,
    request: RequestKey,
    own: PublishedRecord,
    partitions: Collection[int],
    now_ms: int,
    is_enough: Callable[[], bool],
) -> AnyOutcome | None:
    """The outcome of the request among those of the last day; None if it is not found.

    That of another record under its id does not count. Looks at the newest records first, at most
    LOOK_BACK_BYTES_MAX, and until `is_enough`. Raises BusUnavailable.
    """
    consumer = bus.consumer(auto_offset_reset="earliest", fetch_max_wait_ms=FETCH_WAIT_MS)
    places, left = bus.places(OUTCOMES, partitions), LOOK_BACK_BYTES_MAX
    async with bus.running(consumer):
        consumer.assign(places)
        with bus.explained():
            ends = await consumer.end_offsets(places)
            for past_s in LOOK_BACK_S:
                if is_enough():
                    return None
                times = dict.fromkeys(places, now_ms - 1_000 * past_s)
                found = await consumer.offsets_for_times(times)
                begins = {
                    p: min(at.offset, ends[p]) if (at := found.get(p)) else ends[p] for p in places
                }
                end = partial(outcome_for, request=request, own=own)
                outcome, read = await _between(consumer, begins, ends, end, left, is_enough)
                left -= read
                if outcome is not None or left <= 0:
                    return outcome
                ends = begins
    return None


async def _between(
    consumer: RecordConsumer,
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    end: _End,
    bytes_max: int,
    is_enough: Callable[[], bool],
) -> tuple[AnyOutcome | None, int]:
    """The outcome, if it is between these offsets, and how many bytes were read."""
    for place, begin in begins.items():
        consumer.seek(place, begin)
    read, waiting = 0, {place for place in begins if begins[place] < ends[place]}
    while waiting and read < bytes_max and not is_enough():
        for records in (await consumer.getmany(*waiting, timeout_ms=_POLL_MS)).values():
            read += sum(len(record.value or b"") for record in records)
            if (outcome := await _first(records, end)) is not None:
                return outcome, read
        waiting = {place for place in waiting if await consumer.position(place) < ends[place]}
    return None, read


async def _first(records: Collection[Record], end: _End) -> AnyOutcome | None:
    async for record in in_turns(records):
        if (outcome := end(record)) is not None:
            return outcome
    return None
