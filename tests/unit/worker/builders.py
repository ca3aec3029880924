"""Whole, plausible things of the worker's core, for tests to vary in what they are about."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import JsonValue

from answerbus import failure
from answerbus.budget import AccountState, Budget, Spent, Usage
from answerbus.envelope import Headers, ReceivedRequest, decode_request
from answerbus.outcome import Origin
from answerbus.partition import partition_of
from answerbus.registry import Registry
from answerbus.request import InlineRef, Prior, Request, SchemaRef, TextRef
from answerbus.wire import bytes_digest
from services.records.forwarding import first_place, is_forwarded
from services.text.digest import canonical_digest
from services.worker.core.attempt.check import Checked, check
from services.worker.core.attempt.plan import Plan, ProfileFacts
from services.worker.core.attempt.prompt import Prompt, build
from services.worker.core.attempt.reply import Answered, CallFacts, Reply
from services.worker.core.attempt.tariff import Tariff
from services.worker.core.budget.account import Spend, spent_of
from services.worker.core.budget.ledger import Ledger
from services.worker.core.budget.remaining_budget import RemainingBudget
from services.worker.core.outcome.call import Call
from services.worker.core.outcome.decide import Backoff, DecisionInputs, decide
from services.worker.core.outcome.decision import Decision, NextStep, Verdict, Wait
from services.worker.core.outcome.events import event_of
from services.worker.core.request.admit import Arrival
from services.worker.core.request.lane_request import (
    AtOffset,
    LaneRequest,
    RequestProgress,
    incoming_trace,
)
from services.worker.core.run.tool_access import ToolAccess
from services.worker.core.schema.resolve import resolve
from services.worker.core.schema.resolved import Accepted, ResolvedSchema, WireSchema
from services.worker.dialects import prompted
from services.worker.lane.state.lane_state import LaneState
from services.worker.lane.state.open_runs import OpenRuns
from services.worker.lane.state.queue import Queue
from services.worker.lane.state.shared_budgets import SharedBudgets
from services.worker.lane.state.watermark import Watermark
from services.worker.ports.observer import Observers, WorkerCounters

NOW = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
PARTITIONS = 12
TOPIC = "answerbus.requests.v1"
BACKOFF = Backoff(first_s=1.0, factor=2.0, max_s=60.0)
ORIGIN = Origin(topic=TOPIC, partition=0, offset=17, timestamp=NOW)
OBJECT = InlineRef(name="thing", wrapped=False, json_schema={"type": "object"})


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def workflow_of(partition: int, number: int = 0) -> str:
    """The `number`-th workflow that `partition` owns."""
    owned = (f"w-{n}" for n in range(1_000_000) if partition_of(f"w-{n}", PARTITIONS) == partition)
    for _ in range(number):
        next(owned)
    return next(owned)


def body(request_id: str = "r-1", workflow_id: str = "w-0", **more: Any) -> dict[str, Any]:
    return {
        "kind": "request",
        "request_id": request_id,
        "workflow_id": workflow_id,
        "answer_schema": {"kind": "text"},
        "context": {"instructions": "Say something."},
        **more,
    }


def request(request_id: str = "r-1", workflow_id: str = "w-0", **more: Any) -> Request:
    return Request.model_validate_json(json.dumps(body(request_id, workflow_id, **more)))


def arrival(
    value: bytes | dict[str, Any],
    offset: int = 0,
    partition: int = 0,
    at: datetime = NOW,
    headers: Headers = (),
) -> Arrival:
    """A record as intake would hand it over."""
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    place = Origin(topic=TOPIC, partition=partition, offset=offset, timestamp=at)
    decoded = decode_request(raw, headers)
    digest = bytes_digest(raw)
    if isinstance(decoded, ReceivedRequest):
        digest = canonical_digest(decoded.body)
    return Arrival(
        place=place,
        origin=first_place(headers, place) or place,
        forwarded=is_forwarded(headers),
        value=raw,
        headers=headers,
        decoded=decoded,
        digest=digest,
    )


def lane_request(
    request_id: str = "r-1",
    workflow_id: str = "w-0",
    offset: int | None = 17,
    at: datetime = NOW,
    **more: Any,
) -> LaneRequest:
    origin = Origin(topic=TOPIC, partition=0, offset=offset or 0, timestamp=at)
    asked = request(request_id, workflow_id, **more)
    digest = canonical_digest(body(request_id, workflow_id, **more))
    trace = incoming_trace((), origin, request_id)
    stored = None if offset is None else AtOffset(offset)
    return LaneRequest(
        asked, digest, origin, (), 100, trace, RequestProgress(stored), scope=workflow_id
    )


def plan(
    ref: SchemaRef | None = None,
    tariff: Tariff | None = None,
    audit_only: frozenset[str] = frozenset(),
    timeout_s: float = 60.0,
) -> Plan:
    """How a request is asked under the profile `default`, in the dialect `prompted`."""
    asked = resolve(ref or TextRef(), Registry())
    assert isinstance(asked, ResolvedSchema)
    asked = ResolvedSchema(asked.id, asked.name, "", asked.schema, asked.read, audit_only)
    facts = ProfileFacts("default", "scripted", "a-model", 1_000, timeout_s, tariff)
    return Plan(facts, asked, prompted.compile_schema(asked))


def wire() -> WireSchema:
    return plan().wire


def prompt(asked: Request | None = None, prior: Sequence[Prior] = ()) -> Prompt:
    return build(asked or request(), wire(), prior, 1_000)


def case(
    asked: Request | None = None,
    *,
    prior: tuple[Prior, ...] = (),
    notes: tuple[str, ...] = (),
    waits: int = 0,
    attempt: int = 1,
    plan_: Plan | None = None,
    at: datetime = NOW,
) -> Call:
    """A call of a request that arrived at `at`, which was answered."""
    asked = asked or request()
    origin = ORIGIN.model_copy(update={"timestamp": at})
    of = LaneRequest(
        request=asked,
        body_digest=bytes_digest(b"body"),
        origin=origin,
        notes=notes,
        size_bytes=100,
        incoming_trace=incoming_trace((), origin, asked.request_id),
        progress=RequestProgress(AtOffset(17), prior, waits),
        scope=asked.workflow_id,
    )
    spend = Spend(asked.account_id, asked.request_id, attempt, 1_000, 0, NOW)
    return replace(call(of, spend), plan=plan_ or plan())


def account(spent: int = 1, limit: int = 3) -> AccountState:
    return AccountState(id="w-0", limit=Budget(attempts=limit), spent=Spent(attempts=spent))


def around(spent: int = 1, limit: int = 3, jitter: float = 0.5) -> DecisionInputs:
    return DecisionInputs(RemainingBudget(Budget(attempts=limit), (spent, 0, 0)), BACKOFF, jitter)


def decided(of: Call, inputs: DecisionInputs) -> Decision:
    """The verdict on a call, with the event that is made of it."""
    return as_committed(decide(of, inputs), of, inputs)


def as_committed(verdict: Verdict, of: Call, inputs: DecisionInputs) -> Decision:
    if isinstance(verdict, Wait | NextStep):
        return verdict
    spent = spent_of(inputs.budget.charged)
    return event_of(
        verdict, of, AccountState(id="w-0", limit=inputs.budget.limit, spent=spent), NOW
    )


def answered(content: str = "hello", used: tuple[int, int] | None = (10, 5)) -> Answered:
    usage = Usage(input_tokens=used[0], output_tokens=used[1]) if used else Usage()
    return Answered(content, CallFacts(usage=usage))


def call(
    of: LaneRequest, spend: Spend, reply: Reply | None = None, checked: Checked | None = None
) -> Call:
    """A call that came to `reply`; an answer is accepted unless `checked` says otherwise."""
    reply = reply or answered()
    if isinstance(reply, Answered):
        checked = checked or Accepted(reply.content)
    return Call(
        lane_request=of,
        plan=plan(),
        prompt=prompt(of.request),
        spend=spend,
        reply=reply,
        checked=checked,
        duration_ms=7,
    )


def earlier(attempt: int = 1, answer: JsonValue = None) -> Prior:
    return Prior(attempt=attempt, failure=failure.Unknown(), answer=answer)


def nested(levels: int) -> JsonValue:
    value: JsonValue = []
    for _ in range(levels - 1):
        value = [value]
    return value


def checked_call(of: LaneRequest, how: Plan, prompt: Prompt, spend: Spend, reply: Reply) -> Call:
    """The call that came to `reply`, whose answer is checked in place."""
    content = reply.content if isinstance(reply, Answered) else None
    checked = None if content is None else check(content, how.schema, how.wire)
    return Call(of, how, prompt, spend, reply, checked, 100)


def lane_state(position: int = 0, ledger: Ledger | None = None) -> LaneState:
    """Of partition 0, without agents."""
    ledger, queue = ledger or Ledger(), Queue()
    return LaneState(
        partition=0,
        partitions=PARTITIONS,
        worker="me",
        counters=WorkerCounters(),
        ledger=ledger,
        watermark=Watermark(position),
        queue=queue,
        runs=OpenRuns(
            partition=0,
            queue=queue,
            ledger=ledger,
            observer=Observers(),
            tools=ToolAccess(bytes),
            problems_of=lambda _: (),
        ),
        budgets=SharedBudgets(0, PARTITIONS, queue.shared_budgets_back),
        complete=lambda admitted: admitted,
    )
