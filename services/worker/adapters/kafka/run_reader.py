"""Reads signals (tool results, approvals, cancellations) for open lanes, each from its position.

One consumer of the worker, by assignment: results must reach the very lane that called, and the
group's assignor does not keep partitions of several topics together. It is never paused: a full
lane waits for these very records.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import inf
from typing import Any, Protocol

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from answerbus.broker_time import moment
from answerbus.client.bounded import bounded, close, take_error
from answerbus.client.diagnosis import describe_error_for_log
from answerbus.client.records.batch import Record
from answerbus.client.records.unreadable import Unreadable
from answerbus.client.turns import in_turns
from answerbus.envelope import Undecodable
from answerbus.event import Event
from answerbus.explain import problems_text
from answerbus.json_values import signs_of_values
from answerbus.limits import TOOL_RESULT_VALUES_MAX
from answerbus.tool_result import ToolProgress
from answerbus.topics import APPROVALS, CONTROLS, LEASES, TOOL_RESULTS, Topic
from services.text.escaping import plain_line
from services.worker.core.run.tool_report import read_report
from services.worker.lane.lane import Lane
from services.worker.lane.lifecycle import Lifecycle
from services.worker.lane.open_lane import OpenLane
from services.worker.lane.state.machine import State
from services.worker.lane.state.signals import Signal, SignalRecord
from services.worker.tasks.rounds import rounds

POLL_MS = 100
RECORDS_PER_POLL_MAX = 500
ASK_TIMEOUT_S = 30.0
AGAIN_AFTER_S = 1.0
WELL_AFTER_S = 5.0  # a refusal comes with the first fetch
SPEAKING = (TOOL_RESULTS, APPROVALS, CONTROLS, LEASES)
BATCH_BYTES_MAX = 2 * 1024 * 1024  # applied in one go: each is written twice, in one transaction
BATCH_RECORDS_MAX = 50  # of any size: these take some milliseconds, and then others have a turn
BATCH_VALUES_MAX = TOOL_RESULT_VALUES_MAX  # JSON values of all, as a result may have by itself

_ALL = "cannot read tool results, approvals and cancellations"
_CREATE = "create it with `answerbus topics apply --runs`, or grant the user Describe"

Offsets = Mapping[TopicPartition, int]

_log = logging.getLogger(__name__)


class RunConsumer(Protocol):
    """The interface of a consumer without a group."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def assign(self, places: Collection[TopicPartition]) -> None:
        """Read these partitions and no others."""
        ...

    def seek(self, place: TopicPartition, offset: int) -> None: ...

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Those of a topic; None if it is not known."""
        ...

    def beginning_offsets(
        self, places: Collection[TopicPartition]
    ) -> Coroutine[Any, Any, dict[TopicPartition, int]]:
        """Where retention has left their first records."""
        ...

    def end_offsets(
        self, places: Collection[TopicPartition]
    ) -> Coroutine[Any, Any, dict[TopicPartition, int]]: ...

    def position(self, place: TopicPartition) -> Coroutine[Any, Any, int]:
        """From where it is read next."""
        ...

    def getmany(
        self, *, timeout_ms: int, max_records: int
    ) -> Coroutine[Any, Any, Mapping[TopicPartition, Sequence[Record]]]: ...


@dataclass(slots=True)
class SignalBatches:
    """Divides signals into small batches: single ones after a failure.

    Over all lanes: up to where records go one by one, and which are skipped.
    """

    _alone_until: dict[TopicPartition, int] = field(default_factory=dict)
    _passed_by: set[tuple[TopicPartition, int]] = field(default_factory=set)

    def split(self, place: TopicPartition, records: Sequence[Record]) -> Iterator[Sequence[Record]]:
        """Of bounded number and size; one by one up to where something failed before."""
        alone_until = self._alone_until.get(place, 0)
        together: list[Record] = []
        size = values = 0
        for record in records:
            value = _value_of(record)
            own_size, own_values = len(value), signs_of_values(value)
            size, values = size + own_size, values + own_values
            is_full = len(together) == BATCH_RECORDS_MAX or size > BATCH_BYTES_MAX
            is_full = is_full or values > BATCH_VALUES_MAX
            if together and (is_full or together[-1].offset < alone_until):
                yield together
                together, size, values = [], own_size, own_values
            together.append(record)
        if together:
            yield together

    def blame(self, place: TopicPartition, together: Sequence[Record]) -> None:
        """A bug: a record that fails by itself is skipped, so that its lane does not stop."""
        self._alone_until[place] = together[-1].offset + 1
        if len(together) == 1:
            self._passed_by.add((place, together[0].offset))

    def signal(self, topic: Topic, place: TopicPartition, record: Record) -> SignalRecord:
        """A record as lanes take it, without its signal where that failed before."""
        found = signal_record(topic, place, record)
        is_passed_by = (place, record.offset) in self._passed_by
        return replace(found, signal=None) if is_passed_by else found


def _value_of(record: Record) -> bytes:
    return b"" if isinstance(record, Unreadable) else record.value or b""


def signal_record(topic: Topic, place: TopicPartition, record: Record) -> SignalRecord:
    """A record as lanes take it; one that holds no signal is skipped, and the log says why."""
    event = record if isinstance(record, Unreadable) else read_report(record.value)
    place_id = f"{place.topic}-{place.partition}-{record.offset}"
    if isinstance(event, Signal):
        return SignalRecord(topic, record.offset, place_id, event, moment(record.timestamp))
    _log.warning("the record %s is dropped: %s", place_id, _why_dropped(event))
    return SignalRecord(topic, record.offset, place_id, None)


def _missing_text(place: TopicPartition, *, is_there: bool) -> str:
    if is_there:
        what = f"the topic {place.topic} has no partition {place.partition}"
        return f"{what}: `answerbus topics apply --runs` gives it the missing ones"
    return f"the topic {place.topic} is missing: {_CREATE}"


def _why_dropped(event: Event | Undecodable | Unreadable) -> str:
    match event:
        case Undecodable():
            return plain_line(problems_text(event.problems))
        case Unreadable():
            return problems_text((event.problem,))
        case _:
            return f"an event of the kind {event.kind} has no reader here"


def by_question(signals: Sequence[SignalRecord]) -> Iterator[Sequence[SignalRecord]]:
    """Each question of a tool begins a part: its schema is compiled in the loop."""
    begin = 0
    for place, found in enumerate(signals):
        if place > begin and isinstance(found.signal, ToolProgress) and found.signal.asks:
            yield signals[begin:place]
            begin = place
    yield signals[begin:]


@dataclass(frozen=True, slots=True)
class _Question:
    """Where the partitions of a lane begin and end, asked at `asked_at` in the background."""

    opened: OpenLane
    asked_at: datetime
    task: "asyncio.Task[tuple[Offsets, Offsets]]"

    def end(self) -> None:
        """Ask no more; an answer that is there is dropped."""
        self.task.cancel()
        self.task.add_done_callback(take_error)


class RunReader:
    """See the module. `lifecycles` are those of the worker's lanes."""

    def __init__(
        self,
        new_consumer: Callable[[], RunConsumer],
        name_of: Callable[[Topic], str],
        lifecycles: Callable[[], Mapping[int, Lifecycle]],
        poll_ms: int = POLL_MS,
        report: Callable[[str | None], None] = lambda _: None,
    ) -> None:
        """`poll_ms` is how long it waits for records, and how late it sees that a lane is open.

        `report` is called with why something is not read, and with None once all is read again.
        """
        self._new_consumer, self._lifecycles = new_consumer, lifecycles
        self._report, self._failed_at = report, inf  # loop time; inf: all is read
        self._known_at = 0.0  # loop time: when the client last knew all topics
        self._poll_ms = poll_ms
        self._topics = {name_of(topic): topic for topic in SPEAKING}
        self._served: Mapping[int, OpenLane] = {}
        self._questions: dict[int, _Question] = {}  # by lane
        self._next: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}  # when that was asked last
        self._asked_at: dict[int, datetime] = {}  # by lane, until all that was there then is heard
        self._batches = SignalBatches()

    async def run(self) -> None:
        """Read for ever; after a failure, start again from the position of each lane."""
        await rounds("reading results, approvals, cancellations", self._round, AGAIN_AFTER_S)

    async def _round(self) -> None:
        consumer = self._new_consumer()
        try:
            await bounded(consumer.start(), ASK_TIMEOUT_S)
            self._known_at = asyncio.get_running_loop().time()
            await self._read(consumer)
        except (KafkaError, TimeoutError, OSError) as error:
            self._failed(_ALL, describe_error_for_log(error))
        finally:
            self._served, self._asked_at = {}, {}
            for question in self._questions.values():
                question.end()
            self._questions = {}
            await close(consumer.stop())

    def _failed(self, what: str, cause: str) -> None:
        _log.warning("%s: %s", what, cause)
        self._failed_at = asyncio.get_running_loop().time()
        self._report(f"{what}: {cause}")

    def _look(self, consumer: RunConsumer) -> None:
        """Whether all is read: of a topic or partition that is missing the client gives no error.

        The client knows none before it is asked about one, for the first lane that is open.
        """
        now = asyncio.get_running_loop().time()
        known = {name: consumer.partitions_for_topic(name) for name in self._topics}
        asked = (place for it in (*self._served, *self._questions) for place in self._places(it))
        missing = next((it for it in asked if it.partition not in (known[it.topic] or ())), None)
        if not missing:
            self._known_at = now
        elif now - self._known_at > WELL_AFTER_S:
            self._known_at = now  # looked at again, and logged, after that time
            self._failed(_ALL, _missing_text(missing, is_there=bool(known[missing.topic])))
        if not missing and now - self._failed_at > WELL_AFTER_S and not self._questions:
            self._failed_at = inf
            self._report(None)

    async def _read(self, consumer: RunConsumer) -> None:
        while True:
            self._follow_lanes(consumer)
            self._look(consumer)
            if not self._served:
                await self._wait_for_offsets()
                continue
            polled = consumer.getmany(timeout_ms=self._poll_ms, max_records=RECORDS_PER_POLL_MAX)
            for place, records in (await bounded(polled, ASK_TIMEOUT_S)).items():
                await self._hand_over(place, records)
            await self._update_lanes_read(consumer)

    async def _wait_for_offsets(self) -> None:
        if asked := [question.task for question in self._questions.values()]:
            limit_s = self._poll_ms / 1000
            await asyncio.wait(asked, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(self._poll_ms / 1000)

    def _must_ask_again(self, number: int, opened: OpenLane, now: datetime) -> bool:
        """A lane ends no call before it knows what was said until the call's time was over."""
        return number not in self._asked_at and opened.must_apply_signals(now)

    async def _update_lanes_read(self, consumer: RunConsumer) -> None:
        """Up to when lanes have heard what was said."""
        lanes = self._lanes()
        for number, asked_at in list(self._asked_at.items()):
            places = self._places(number)
            at = [await bounded(consumer.position(place), ASK_TIMEOUT_S) for place in places]
            if all(self._ends[place] <= next_ for place, next_ in zip(places, at, strict=True)):
                del self._asked_at[number]
                self._served[number].signals_applied_until = asked_at
                if lane := lanes.get(number):  # else it was closed meanwhile
                    lane.pump()

    def _lanes(self) -> dict[int, Lane]:
        return {number: life.lane for number, life in self._lifecycles().items()}

    def _follow_lanes(self, consumer: RunConsumer) -> None:
        """Read for the lanes that are open now; a reopened lane gives its position again.

        A lane is left out until its offsets are known: a partition without a leader gives none.
        """
        lanes = self._lanes()
        is_open = {n: lane.open for n, lane in lanes.items() if lane.state is State.OPEN}
        wanted = {number: opened for number, opened in is_open.items() if opened}
        served = {n: opened for n, opened in self._served.items() if wanted.get(n) is opened}
        self._asked_at = {n: at for n, at in self._asked_at.items() if n in served}
        self._take_offsets(wanted, served)
        for number, opened in wanted.items():
            now, is_new = lanes[number].context.clock.now(), number not in served
            if number in self._questions:
                continue
            if is_new or self._must_ask_again(number, opened, now):
                asking = asyncio.create_task(self._offsets(consumer, number))
                self._questions[number] = _Question(opened, now, asking)
        if served.keys() == self._served.keys() and all(
            self._served[number] is opened for number, opened in served.items()
        ):
            return
        self._served = served
        places = [place for number in served for place in self._places(number)]
        consumer.assign(places)
        for place in places:
            consumer.seek(place, self._next[place])

    async def _offsets(self, consumer: RunConsumer, number: int) -> tuple[Offsets, Offsets]:
        """Where the partitions of a lane begin and end; a failure is raised after a pause."""
        places = self._places(number)
        try:
            firsts = await bounded(consumer.beginning_offsets(places), ASK_TIMEOUT_S)
            return firsts, await bounded(consumer.end_offsets(places), ASK_TIMEOUT_S)
        except (KafkaError, TimeoutError, OSError):
            await asyncio.sleep(AGAIN_AFTER_S)
            raise

    def _take_offsets(self, wanted: Mapping[int, OpenLane], served: dict[int, OpenLane]) -> None:
        """Add to `served` the lanes whose offsets are known now; raise where no other is read."""
        for number, question in list(self._questions.items()):
            is_wanted = wanted.get(number) is question.opened
            if is_wanted and not question.task.done():
                continue
            del self._questions[number]
            if not is_wanted:
                question.end()
                continue
            try:
                firsts, ends = question.task.result()
            except (KafkaError, TimeoutError, OSError) as error:
                if not served:
                    raise
                what = f"cannot read what is said to runs of lane {number}"
                self._failed(what, describe_error_for_log(error))
                continue
            self._ends |= ends
            self._asked_at[number] = question.asked_at
            if number not in served:
                served[number] = question.opened
                self._set_start(question.opened, firsts, ends)

    def _set_start(self, opened: OpenLane, firsts: Offsets, ends: Offsets) -> None:
        for place, first in firsts.items():
            position = opened.lane_state.own_record.position_in(self._topics[place.topic])
            # A topic that was created again ends before that.
            self._next[place] = position if first <= position <= ends[place] else first

    def _places(self, number: int) -> list[TopicPartition]:
        return [TopicPartition(name, number) for name in self._topics]

    async def _hand_over(self, place: TopicPartition, records: Sequence[Record]) -> None:
        opened, life = self._served.get(place.partition), self._lifecycles().get(place.partition)
        if not records or opened is None or life is None:
            return
        topic, self._next[place] = self._topics[place.topic], records[-1].offset + 1
        for number, together in enumerate(self._batches.split(place, records)):
            if number:
                await asyncio.sleep(0)  # let others go on: a batch may take a tenth of a second
            signals = [
                self._batches.signal(topic, place, record) async for record in in_turns(together)
            ]
            try:
                async for part in in_turns(by_question(signals)):
                    if not life.lane.on_signals(opened, part):
                        # It may be open again, as it was, before lanes are looked at: all are read
                        # again, from where they are.
                        self._served, self._asked_at = {}, {}
                        return
            except Exception as error:
                _log.exception("signals to runs of lane %d failed", place.partition)
                self._batches.blame(place, together)
                life.lane.on_loss(error)  # what was applied of it is forgotten
                return
