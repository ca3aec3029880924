"""A partition whose records a real lane's books have written, as readers from outside see them."""

import json
from collections import Counter
from datetime import timedelta
from typing import Any

from answerbus.dead_letter import DeadLetter
from answerbus.envelope import encode
from answerbus.event import Event
from answerbus.topics import REQUESTS, TOPIC_OF_KIND, Topic
from services.operators.records.stored import Stored
from services.worker.core.budget.audit import write_off
from services.worker.core.outcome.call import Call
from services.worker.core.outcome.decide import DecisionInputs, decide
from services.worker.core.outcome.decision import Decision
from services.worker.core.request.lane_request import LaneRequest
from services.worker.lane.state.record_admission import admit_record
from services.worker.lane.state.records import LaneWrite
from tests.unit.worker import builders
from tests.unit.worker.builders import NOW, body, lane_state, plan, prompt, workflow_of

WORKFLOW = workflow_of(0)


class Partition:
    """Each step takes a second, unless `clock` is moved."""

    def __init__(self) -> None:
        self.clock = NOW
        self.stored: list[Stored] = []
        self.lane_state = lane_state()
        self._ends: Counter[Topic] = Counter()

    def of(self, topic: Topic) -> list[Stored]:
        return [stored for stored in self.stored if stored.topic is topic]

    def put(
        self, topic: Topic, key: bytes | None, value: bytes | None, headers: Any = ()
    ) -> Stored:
        at_ms = int(self.clock.timestamp() * 1000)
        stored = Stored(topic, 0, self._ends[topic], at_ms, key, value, headers)
        self._ends[topic] += 1
        self.stored.append(stored)
        return stored

    def tell(self, event: Event) -> Stored:
        record = encode(event)
        return self.put(TOPIC_OF_KIND[event.kind], record.key, record.value, record.headers)

    def ask(self, request_id: str = "r-1", headers: Any = (), **more: Any) -> None:
        self.clock += timedelta(seconds=1)
        value = json.dumps(body(request_id, WORKFLOW, **more)).encode()
        stored = self.put(REQUESTS, None, value, headers)
        arrival = builders.arrival(value, stored.offset, 0, self.clock, headers)
        self._write(admit_record(self.lane_state, arrival, self.clock))

    def spend(self) -> tuple[LaneRequest, Any]:
        self.clock += timedelta(seconds=1)
        self.lane_state.queue.wake(self.clock)
        lane_request = self.lane_state.queue.take()
        assert lane_request
        charged = self.lane_state.spend(
            lane_request, plan(), prompt(lane_request.request), self.clock
        )
        assert isinstance(charged, tuple)
        self._write(charged[1])
        return lane_request, charged[0]

    def call(self, *outcome: Any) -> Decision:
        """Take the next request, pay, call, and write down how it ended."""
        lane_request, spend = self.spend()
        return self.settle(lane_request, spend, *outcome)

    def settle(self, lane_request: LaneRequest, spend: Any, *outcome: Any) -> Decision:
        return self.settle_call(builders.call(lane_request, spend, *outcome))

    def settle_call(self, call: Call) -> Decision:
        self.clock += timedelta(seconds=1)
        lane_request = call.lane_request
        budget = self.lane_state.budget_after(call)
        decided = decide(call, DecisionInputs(budget, builders.BACKOFF, 0.0))
        decision, writing = self.lane_state.commit(call, decided, self.clock)
        self._write(writing)
        self.lane_state.apply_decision(lane_request, decision)
        return decision

    def lose(self, spend: Any) -> None:
        """A successor writes off what a crashed worker had in flight."""
        self.clock += timedelta(seconds=1)
        attempt = write_off(self.lane_state.ledger, spend, self.clock, "successor")
        assert self.lane_state.ledger.lane is None
        self.tell(attempt)
        account = self.lane_state.ledger.accounts[spend.account_id]
        self.put(TOPIC_OF_KIND["account"], f"account:{account.id}".encode(), account.json())

    def dead_letter(self, lane_request: LaneRequest, cause: Any) -> DeadLetter:
        self.clock += timedelta(seconds=1)
        dead_letter, writing = self.lane_state.dead_letter(lane_request, cause, self.clock)
        self._write(writing)
        self.lane_state.queue.finish(lane_request)
        return dead_letter

    def _write(self, writing: LaneWrite | None) -> None:
        for record in writing.records if writing else ():
            out = record.written()
            self.put(out.topic, out.key, out.value, out.headers)


def changed(stored: Stored, **fields: Any) -> Stored:
    """The record with other fields in its body."""
    value = json.dumps({**json.loads(stored.value or b""), **fields}).encode()
    return Stored(
        stored.topic, stored.partition, stored.offset, stored.at_ms, stored.key, value, ()
    )
