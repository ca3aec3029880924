"""Signals are applied in bounded batches: a flood holds up no other; no failure ends the reader."""

import asyncio
import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import TopicAuthorizationFailedError

from answerbus.topics import TOOL_RESULTS
from services.worker.adapters.kafka.run_reader import (
    BATCH_BYTES_MAX,
    BATCH_RECORDS_MAX,
    BATCH_VALUES_MAX,
    RunReader,
    SignalBatches,
    by_question,
    signal_record,
)
from services.worker.lane.state.machine import State
from services.worker.lane.state.signals import SignalRecord
from tests.unit.worker.adapters.kafka.test_intake import record
from tests.unit.worker.builders import NOW
from tests.unit.worker.lane.virtual import run

PLACE = TopicPartition("tool-results", 0)
ONE_POLL = 500


class Consumer:
    """Empty topics; `on_poll` is called while a poll waits."""

    def __init__(self, on_poll: Callable[[], None] = lambda: None) -> None:
        self.on_poll, self.polls = on_poll, 0
        self.at: dict[TopicPartition, int] = {}

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        pass

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.at[partition] = offset

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return {0, 1}

    async def beginning_offsets(self, places: Collection[TopicPartition]) -> dict[Any, int]:
        return dict.fromkeys(places, 0)

    end_offsets = beginning_offsets

    async def position(self, partition: TopicPartition) -> int:
        return 0

    async def getmany(self, **_: object) -> dict[Any, Any]:
        await asyncio.sleep(1)
        self.polls += 1
        self.on_poll()
        return {}


class Unstoppable(Consumer):
    """Neither starts nor stops: it cancels itself, as aiokafka was seen to."""

    starts = 0

    async def start(self) -> None:
        Unstoppable.starts += 1
        raise OSError("away")

    async def stop(self) -> None:
        asked = asyncio.get_running_loop().create_future()
        asked.cancel()
        await asked


def lane_that_hears(number: int) -> SimpleNamespace:
    """An open lane; `heard` has the offsets of what it was given."""
    heard: list[int] = []
    opened = SimpleNamespace(
        lane_state=SimpleNamespace(
            own_record=SimpleNamespace(position_in=lambda _: len(heard)),
        ),
        signals_applied_until=None,
        must_apply_signals=lambda _: False,
    )

    def on_signals(_: object, signals: Sequence[SignalRecord]) -> bool:
        heard.extend(one.offset for one in signals)
        return True

    return SimpleNamespace(
        number=number,
        heard=heard,
        state=State.OPEN,
        open=opened,
        context=SimpleNamespace(clock=SimpleNamespace(now=lambda: NOW)),
        pump=lambda: None,
        on_signals=on_signals,
    )


def offsets_of(batches: SignalBatches, values: Sequence[bytes]) -> list[list[int]]:
    records = [record(PLACE, offset, value) for offset, value in enumerate(values)]
    return [[it.offset for it in together] for together in batches.split(PLACE, records)]


def test_many_small_records_are_divided_by_their_number() -> None:
    found = offsets_of(SignalBatches(), [b"{}"] * ONE_POLL)
    assert [len(together) for together in found] == [BATCH_RECORDS_MAX] * 10
    assert [offset for together in found for offset in together] == list(range(ONE_POLL))


def test_large_records_are_divided_by_their_bytes() -> None:
    large = bytes(BATCH_BYTES_MAX // 2 + 1)
    assert offsets_of(SignalBatches(), [large, large, b"", b"", large]) == [[0], [1, 2, 3], [4]]


def test_records_of_many_values_are_divided_by_these() -> None:
    """To apply a result takes time by its values: 50 of 17,000 each held the loop for 0.7 s."""
    many = b"[" + b"0," * (BATCH_VALUES_MAX // 2) + b"0]"
    assert offsets_of(SignalBatches(), [b"[0,0]", many, many, b"[]", many]) == [[0, 1], [2, 3], [4]]


def test_each_question_of_a_tool_begins_a_part_however_it_is_spelt() -> None:
    """25 with schemas of 2 KB each held the loop for 1.1 s."""
    asks = """{"kind": "tool_progress", "call_id": "c", "workflow_id": "w", "state": "s",
        "token": "AAAAAAAAAAAAAAAAAAAAAA==", "\\u0061sks": {"question": "?", "json_schema": {}}}"""
    values = [b"{}", asks.encode(), asks.encode(), b"{}", asks.encode()]
    signals = [
        signal_record(TOOL_RESULTS, PLACE, record(PLACE, offset, value))
        for offset, value in enumerate(values)
    ]

    parts = [[one.offset for one in part] for part in by_question(signals)]
    assert parts == [[0], [1], [2, 3], [4]]


def test_the_log_says_why_a_record_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    """A person's approval with a wrong word and a tool's result without a value left no trace."""
    by = {"by": "ann", "reason": "", "workflow_id": "w", "at": "2026-11-28T18:00:00Z"}
    asked = {"call_id": "c", "args_digest": "sha256:" + "0" * 64}
    reply = {"call_id": "c", "workflow_id": "w", "token": "A" * 22 + "=="}
    events = [
        {"kind": "approval", **asked, "decision": "approve", **by},
        {"kind": "tool_result", **reply, "outcome": {"kind": "ok"}},
        {"kind": "dismissed", "dead_letter_id": "d", **by},
    ]
    for offset, event in enumerate(events):
        signal_record(TOOL_RESULTS, PLACE, record(PLACE, offset, json.dumps(event).encode()))

    wrong = "found a text of 7 characters; expected: Input should be 'approved' or 'denied'"
    lacks = "found nothing; expected: Field required"
    assert caplog.messages == [
        f"the record tool-results-0-0 is dropped: /decision: {wrong} (literal_error)",
        f"the record tool-results-0-1 is dropped: /outcome/value: {lacks} (missing)",
        "the record tool-results-0-2 is dropped: an event of the kind dismissed has no reader here",
    ]


def test_what_failed_together_goes_one_by_one_and_then_on() -> None:
    batches = SignalBatches()
    batches.blame(PLACE, [record(PLACE, 0), record(PLACE, 1)])
    assert offsets_of(batches, [b"{}"] * 4) == [[0], [1], [2, 3]]


def test_a_consumer_that_cannot_be_closed_does_not_end_the_reading() -> None:
    Unstoppable.starts = 0

    async def main() -> None:
        reader = RunReader(Unstoppable, lambda topic: topic.name, dict)
        reading = asyncio.create_task(reader.run())
        await asyncio.sleep(60)
        assert not reading.done()
        reading.cancel()
        await asyncio.wait([reading])

    run(main())
    assert Unstoppable.starts > 2


def test_a_lane_that_is_gone_before_it_has_heard_all_does_not_end_the_reading() -> None:
    """Closed and forgotten during one poll, by two rebalances, while its time is running out."""
    opened = SimpleNamespace(
        lane_state=SimpleNamespace(own_record=SimpleNamespace(position_in=lambda _: 0)),
        signals_applied_until=None,
        must_apply_signals=lambda _: True,
    )
    context = SimpleNamespace(clock=SimpleNamespace(now=lambda: NOW))
    lane = SimpleNamespace(state=State.OPEN, open=opened, context=context)
    lives: dict[int, Any] = {0: SimpleNamespace(lane=lane)}

    made: list[Consumer] = []

    def new_consumer() -> Consumer:
        made.append(Consumer(on_poll=lives.clear))
        return made[-1]

    def lifecycles() -> Mapping[int, Any]:
        return lives

    async def main() -> None:
        reading = asyncio.create_task(RunReader(new_consumer, str, lifecycles).run())
        await asyncio.sleep(60)
        assert not reading.done()
        reading.cancel()
        await asyncio.wait([reading])

    run(main())
    assert len(made) == 1, "it reads on, and does not begin again"
    assert opened.signals_applied_until == NOW


def test_what_a_lane_does_not_take_in_a_rebalance_is_read_again() -> None:
    """It is open again, with the same producer, before the reader looks at lanes again."""
    applied: dict[int, list[int]] = {0: [], 1: []}
    lanes: dict[int, SimpleNamespace] = {}

    def lane_of(number: int) -> SimpleNamespace:
        def on_signals(_: object, signals: Sequence[SignalRecord]) -> bool:
            lanes[0].state = State.OPEN if number else lanes[0].state
            is_open = lanes[number].state is State.OPEN
            applied[number] += [one.offset for one in signals if is_open]
            return is_open

        own_record = SimpleNamespace(position_in=lambda _: len(applied[number]))
        opened = SimpleNamespace(
            lane_state=SimpleNamespace(own_record=own_record),
            signals_applied_until=None,
            must_apply_signals=lambda _: False,
        )
        context = SimpleNamespace(clock=SimpleNamespace(now=lambda: NOW))
        return SimpleNamespace(
            state=State.OPEN, open=opened, context=context, pump=lambda: None, on_signals=on_signals
        )

    lanes.update({number: lane_of(number) for number in applied})

    class Results(Consumer):
        """One in each of two partitions; the first poll ends while the lane of one is revoked."""

        async def end_offsets(self, places: Collection[TopicPartition]) -> dict[Any, int]:
            return dict.fromkeys(places, 1)

        async def getmany(self, **_: object) -> dict[Any, Any]:
            await super().getmany()
            if self.polls == 1:
                lanes[0].state = State.SUSPENDED
            new = [it for it, at in self.at.items() if it.topic == str(TOOL_RESULTS) and not at]
            self.at |= dict.fromkeys(new, 1)
            return {place: [record(place, 0, b"{}")] for place in sorted(new)}

    async def main() -> None:
        lives: dict[int, Any] = {n: SimpleNamespace(lane=lane) for n, lane in lanes.items()}
        reading = asyncio.create_task(RunReader(Results, str, lambda: lives).run())
        await asyncio.sleep(60)
        reading.cancel()
        await asyncio.wait([reading])

    run(main())
    assert applied == {0: [0], 1: [0]}


def test_a_partition_without_a_leader_silences_its_own_lane_alone() -> None:
    """The client asks for its offsets again and again, and says nothing."""
    lanes = {number: lane_that_hears(number) for number in (0, 1)}
    silent = 1

    class Results(Consumer):
        """A result in each partition; the one that is silent has a leader later."""

        async def beginning_offsets(self, places: Collection[TopicPartition]) -> dict[Any, int]:
            if any(place.partition == silent for place in places):
                await asyncio.sleep(3600)
            return dict.fromkeys(places, 0)

        async def end_offsets(self, places: Collection[TopicPartition]) -> dict[Any, int]:
            return dict.fromkeys(await self.beginning_offsets(places), 1)

        async def getmany(self, **_: object) -> dict[Any, Any]:
            await super().getmany()
            new = [it for it, at in self.at.items() if it.topic == str(TOOL_RESULTS) and not at]
            self.at |= dict.fromkeys(new, 1)
            return {place: [record(place, 0, b"{}")] for place in sorted(new)}

        async def position(self, partition: TopicPartition) -> int:
            return 1

    async def main() -> None:
        nonlocal silent
        lives: dict[int, Any] = {n: SimpleNamespace(lane=lane) for n, lane in lanes.items()}
        reading = asyncio.create_task(RunReader(Results, str, lambda: lives).run())
        await asyncio.sleep(3)
        assert [lane.heard for lane in lanes.values()] == [[0], []]
        assert lanes[0].open.signals_applied_until == NOW
        await asyncio.sleep(120)
        lanes[0].open.must_apply_signals = lambda _: True  # and of this one it is asked again
        lanes[0].open.signals_applied_until = None
        await asyncio.sleep(3)
        assert lanes[0].open.signals_applied_until == NOW
        silent = 0
        await asyncio.sleep(60)
        assert [lane.heard for lane in lanes.values()] == [[0], [0]]
        reading.cancel()
        await asyncio.wait([reading])

    run(main())


def test_what_is_not_read_is_reported_until_all_is_read_again() -> None:
    """A refusal comes with a fetch of each new consumer; of a missing topic comes no error."""
    refused = True
    there: set[int] | None = {0}
    told: list[str | None] = []

    class Controls(Consumer):
        def partitions_for_topic(self, topic: str) -> set[int] | None:
            return there

        async def getmany(self, **_: object) -> dict[Any, Any]:
            await super().getmany()
            if refused:
                raise TopicAuthorizationFailedError("t.controls.v1")
            return {}

    async def main() -> None:
        nonlocal refused, there
        lives: dict[int, Any] = {0: SimpleNamespace(lane=lane_that_hears(0))}
        reader = RunReader(Controls, str, lambda: lives, report=told.append)
        reading = asyncio.create_task(reader.run())
        await asyncio.sleep(20)
        assert len(told) > 1
        assert all("no right to the topic t.controls.v1" in (text or "") for text in told)
        refused = False
        await asyncio.sleep(10)
        assert told[-1] is None
        there = None
        await asyncio.sleep(20)
        assert "is missing" in (told[-1] or "")
        there = {1}  # it was created again with fewer
        await asyncio.sleep(20)
        assert "has no partition 0" in (told[-1] or "")
        there = {0}
        await asyncio.sleep(10)
        assert told[-1] is None
        reading.cancel()
        await asyncio.wait([reading])

    run(main())


def test_no_topic_is_missing_while_lanes_take_long_to_open() -> None:
    told: list[str | None] = []

    class Unasked(Consumer):
        knows = False

        def partitions_for_topic(self, topic: str) -> set[int] | None:
            return {0} if self.knows else None

        async def beginning_offsets(self, places: Collection[TopicPartition]) -> dict[Any, int]:
            self.knows = True
            return await super().beginning_offsets(places)

    async def main() -> None:
        lane = lane_that_hears(0)
        lane.state = State.OPENING
        lives: dict[int, Any] = {0: SimpleNamespace(lane=lane)}
        reader = RunReader(Unasked, str, lambda: lives, report=told.append)
        reading = asyncio.create_task(reader.run())
        await asyncio.sleep(60)
        lane.state = State.OPEN
        await asyncio.sleep(20)
        assert told == []
        reading.cancel()
        await asyncio.wait([reading])

    run(main())


def test_a_consumer_that_starts_slowly_has_its_time_to_know_the_topics() -> None:
    told: list[str | None] = []

    class Slow(Consumer):
        known_from = math.inf

        async def start(self) -> None:
            await asyncio.sleep(20)
            self.known_from = asyncio.get_running_loop().time() + 2

        def partitions_for_topic(self, _: str) -> set[int] | None:
            return {0} if asyncio.get_running_loop().time() > self.known_from else None

    async def main() -> None:
        lives: dict[int, Any] = {0: SimpleNamespace(lane=lane_that_hears(0))}
        reading = asyncio.create_task(RunReader(Slow, str, lambda: lives, report=told.append).run())
        await asyncio.sleep(60)
        assert told == []
        reading.cancel()
        await asyncio.wait([reading])

    run(main())
