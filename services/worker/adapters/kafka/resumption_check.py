"""Looks for the operators' records that prove the steps from which requests go on.

The record and its request are in one transaction: where the request can be read, the record is
written, and its place is known by the broker's time. So it is looked for when it is needed, and no
lane has to remember it over a restart, a move, or a retention.
"""

import asyncio
import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from aiokafka.errors import KafkaError

from answerbus.client.bounded import bounded
from answerbus.client.bus import Bus
from answerbus.client.diagnosis import describe_error_for_log
from answerbus.client.records.consumer import RecordConsumer
from answerbus.client.records.unreadable import Unreadable
from answerbus.envelope import decode
from answerbus.outcome import Origin
from answerbus.request import Request
from answerbus.resumed_run import RunResumed
from answerbus.topics import APPROVALS
from services.records.resumed_steps import proves

# A transaction of an operator lasts 15 s at most; brokers' clocks differ by less than the rest.
BEFORE = timedelta(minutes=10)
ASK_TIMEOUT_S = 30.0
AGAIN_AFTER_S = 2.0
POLL_MS = 100
_SIGN = b'"run_resumed"'

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class _Question:
    request: Request
    partition: int
    since: datetime
    answer: bool | None = None


class ResumptionCheck:
    """One search at a time, which answers all that was asked before it began."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._asked: set[_Question] = set()
        self._searching = asyncio.Lock()

    async def __call__(self, request: Request, origin: Origin) -> bool:
        """Whether an operator sent the steps of a request; waits while Kafka does not answer."""
        question = _Question(request, origin.partition, origin.timestamp - BEFORE)
        self._asked.add(question)
        try:
            while question.answer is None:
                async with self._searching:
                    if question.answer is None:
                        await self._search(list(self._asked))
            return question.answer
        finally:
            self._asked.discard(question)

    async def _search(self, questions: Collection[_Question]) -> None:
        bus = self._bus
        written, committed = bus.consumer(isolation_level="read_uncommitted"), bus.consumer()
        try:
            there = (await bus.counts(APPROVALS))[APPROVALS]
            async with bus.running(written), bus.running(committed):
                for partition in {question.partition for question in questions}:
                    asked = [one for one in questions if one.partition == partition]
                    proved = set[_Question]()
                    if partition < there:  # an untrusted header may name any
                        proved = await self._proved(asked, written, committed)
                    for question in asked:
                        question.answer = question in proved
        except (KafkaError, TimeoutError, OSError) as error:
            _log.warning("cannot read operators' records: %s", describe_error_for_log(error))
            await asyncio.sleep(AGAIN_AFTER_S)

    async def _proved(
        self, asked: Sequence[_Question], written: RecordConsumer, committed: RecordConsumer
    ) -> set[_Question]:
        """What a transaction has written may be undecided for a moment more in this partition."""
        place = self._bus.place(APPROVALS, asked[0].partition)
        since_ms = max(int(min(one.since for one in asked).timestamp() * 1000), 0)
        first = (await bounded(written.offsets_for_times({place: since_ms}), ASK_TIMEOUT_S))[place]
        end = (await bounded(written.end_offsets([place]), ASK_TIMEOUT_S))[place]
        if first is None:
            return set()
        committed.assign([place])
        committed.seek(place, first.offset)
        proved = set[_Question]()
        while await bounded(committed.position(place), ASK_TIMEOUT_S) < end:
            found = await bounded(committed.getmany(timeout_ms=POLL_MS), ASK_TIMEOUT_S)
            for record in found.get(place, ()):
                if isinstance(record, Unreadable) or _SIGN not in (record.value or b""):
                    continue
                event = decode(record.value)
                if isinstance(event, RunResumed):
                    proved.update(one for one in asked if proves(event, one.request))
        return proved
