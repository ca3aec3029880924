"""Finds unreadable records in private topics, and what is lost with each."""

from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass, field, replace

from answerbus.client.bus import Bus
from answerbus.outcome import RetryRequest
from answerbus.private.lane_records import KEPT, LaneRecords
from answerbus.private.ledger import (
    LANE_KEY,
    ClosedIdsRecord,
    LaneRecord,
    LedgerRecord,
    Skipped,
)
from answerbus.private.runs import RunCallRecord, RunRecord, RunsRecord, RunStepRecord
from answerbus.topics import LEDGER, RETRIES, RUNS, Topic
from services.kafka.held_rights import held_rights
from services.kafka.planning.rights import Right, Role
from services.operators.adapters.reader import reading
from services.operators.records.stored import RecordPosition, Stored
from services.records.chunk_numbers import ChunkNumbers
from services.records.private_topics import RecordFault, passes_by, private_event, runs_event
from services.records.run_gaps import RunGaps

PRIVATE = (LEDGER, RETRIES)
OF_RUNS = (RUNS,)  # not every deployment has agents
_Content = LedgerRecord | RetryRequest | RunsRecord | RecordFault
_SHUT = "other lanes differ, and this one stays shut"
_CLOSED = "a later copy would be worked on again"


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A record, why no worker can read it, and who has skipped it."""

    stored: Stored
    fault: RecordFault
    skipped: Skipped | None = None


@dataclass(slots=True)
class LaneContents:
    """The content of one partition of the private topics, as operators see it."""

    partition: int
    unreadable: list[Unreadable] = field(default_factory=list)
    _records: LaneRecords = field(default_factory=LaneRecords)
    _numbers: ChunkNumbers = field(default_factory=ChunkNumbers)
    _gaps: RunGaps = field(default_factory=RunGaps)
    # Those before which something may be missing, by topic and offset, without their values.
    _followers: dict[tuple[Topic, int], Stored] = field(default_factory=dict)
    _stored: dict[int, Stored] = field(default_factory=dict)  # of the lane, by offset

    @property
    def lane(self) -> LaneRecord | None:
        """The lane's own record, if there is one."""
        return self._records.last

    def take(self, stored: Stored) -> None:
        """The next record of one of the topics."""
        if stored.value is None:
            self._end(stored)
            return
        if stored.fault is not None:
            self.unreadable.append(Unreadable(stored, RecordFault(stored.fault.expected)))
            return
        event = _content(stored, stored.value)
        self._number(stored, event)
        match event:
            case RecordFault():
                self.unreadable.append(Unreadable(stored, event))
            case Skipped():
                self.unreadable = [_passed(one, event, stored.topic) for one in self.unreadable]
                if stored.topic is LEDGER and (skipped := self._records.skip(event)):
                    passed = Unreadable(
                        self._stored[skipped.offset], RecordFault(event.problem), event
                    )
                    self.unreadable.append(passed)
            case LaneRecord():
                self._records.take(stored.offset, stored.value, event)
                self._stored[stored.offset] = stored
                if len(self._stored) > KEPT:
                    del self._stored[next(iter(self._stored))]
            case _:
                pass

    def _end(self, stored: Stored) -> None:
        if gaps := self._gaps_of(stored.topic):
            gaps.end(stored.key)
        if stored.topic is LEDGER and stored.key == LANE_KEY.encode():
            self._records.end()

    def _number(self, stored: Stored, event: _Content) -> None:
        gaps = self._gaps_of(stored.topic)
        match event:
            case RecordFault() if gaps:
                gaps.take_unreadable(stored.key, stored.offset)
            case Skipped() if gaps:
                gaps.skip(event.offset)
            case ClosedIdsRecord():
                self._numbers.take(event, stored.offset)
                self._followers[stored.topic, stored.offset] = replace(stored, value=b"")
            case RunRecord() | RunStepRecord() | RunCallRecord():
                self._gaps.take(event, stored.offset)
                self._followers[stored.topic, stored.offset] = replace(stored, value=b"")
            case _:
                pass

    def _gaps_of(self, topic: Topic) -> ChunkNumbers | RunGaps | None:
        if topic is LEDGER:
            return self._numbers
        return self._gaps if topic is RUNS else None

    def differ(self, wrong: Mapping[int, str]) -> None:
        """All is read: what is missing, and a last record of no use, since other lanes differ."""
        for topic, gaps in ((LEDGER, self._numbers), (RUNS, self._gaps)):
            for offset, gap in gaps.missing():
                self.unreadable.append(Unreadable(self._followers[topic, offset], RecordFault(gap)))
        statement, why = self._records.statement, wrong.get(self.partition)
        if statement and why:
            self.unreadable.append(
                Unreadable(self._stored[statement.offset], RecordFault(f"{why}; {_SHUT}"))
            )


def _content(stored: Stored, value: bytes) -> _Content:
    return runs_event(value) if stored.topic is RUNS else private_event(stored.topic, value)


def _passed(one: Unreadable, skipped: Skipped, topic: Topic) -> Unreadable:
    stored = one.stored
    is_meant = stored.topic is topic and passes_by(skipped, stored.offset, stored.value)
    return Unreadable(stored, one.fault, skipped) if is_meant else one


async def lanes(bus: Bus, chosen: Collection[int] | None) -> AsyncIterator[LaneContents]:
    """Each partition, or those that are chosen. Raises BusUnavailable."""
    wrong = (await bus.lanes()).wrong
    async with reading(bus, PRIVATE, optional=OF_RUNS) as reader:
        for partition in reader.partitions:
            if chosen is None or partition in chosen:
                found = LaneContents(partition)
                async for stored in reader.records(None, partition):
                    found.take(stored)
                found.differ(wrong)
                yield found


async def hidden_runs(
    bus: Bus, topics: Collection[Topic] = OF_RUNS, role: Role = "operator"
) -> str | None:
    """That topics of runs, if they are there, are hidden from this user, and the right to grant."""
    there = await bus.present(*topics)
    rights = [
        Right("topic", topic.full_name(bus.prefix), "Read", "to find records of runs")
        for topic in topics
        if topic not in there
    ]
    held = await held_rights(bus, rights) if rights else {}
    missing = ", ".join(str(right) for right, is_held in held.items() if is_held is False)
    if not missing:
        return None
    return (
        f"Records of runs were not looked at: no right to {missing}. Grant it, also where no "
        f"agents run; `answerbus topics acls --role {role}` prints all."
    )


async def record_at(bus: Bus, place: RecordPosition) -> Stored | Unreadable | None:
    """The record there: readable, unreadable, or none."""
    if place.topic not in await bus.present(place.topic):
        return None
    if place.partition not in range((await bus.counts(place.topic))[place.topic]):
        return None
    async with reading(bus, PRIVATE, optional=OF_RUNS) as reader:
        found, there = LaneContents(place.partition), None
        wrong = (await bus.lanes()).wrong
        async for stored in reader.records(None, place.partition):
            found.take(stored)
            there = stored if stored.place == place else there
        found.differ(wrong)
    return next((one for one in found.unreadable if one.stored.place == place), there)


def meaning(stored: Stored) -> str:
    """The possible loss with a record that is skipped, from its key."""
    key = (stored.key or b"").decode(errors="backslashreplace")
    kind, _, name = key.partition(":")
    if stored.topic is RETRIES:
        return (
            f"the request {key!a}: if its entry before this one is gone, it has no "
            "outcome, and must be published again under another id"
        )
    if stored.topic is RUNS:
        return _of_run(key)
    match kind:
        case "account":
            return f"what the account {name!a} had spent: its budget may start again"
        case "closed":
            return f"that {name!a} has had its outcome: {_CLOSED}"
        case "closed_ids":
            return (
                f"that thousands of requests have had their outcome, or those before it: {_CLOSED}"
            )
        case "lane":
            return "how often the lane was opened without progress, and whom it suspects of that"
        case _:
            return "nothing: no worker writes under such a key"


def _of_run(key: str) -> str:
    match key.split("/"):
        case [name]:
            return (
                f"the run of the request {name!a}: it may have no outcome, and must be published "
                "again under another id"
            )
        case [_, "cancel", *_]:
            return f"the cancellation {key!a}: the request may go on, and can be cancelled again"
        case [name, n]:
            return (
                f"step {n!a} of the run {name!a} and those after it: the model is asked for them "
                "again, and their tools may be called again"
            )
        case _:
            return f"the state of the tool call {key!a}: it may be made and approved again"
