"""Makes the events of a run, each in one place; steps and ends of calls form one hash chain."""

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

from pydantic_core import from_json

from answerbus.budget import AccountState, Spent
from answerbus.call_outcome import CallOutcome
from answerbus.continued_call import ToolContinue
from answerbus.control import ApprovalRequested
from answerbus.failure import Problem
from answerbus.limits import TOOL_TIMEOUT_S_MAX
from answerbus.outcome import Origin
from answerbus.private.runs import (
    Link,
    RunCallRecord,
    RunChildRecord,
    RunStepRecord,
)
from answerbus.reconcile import ToolReconcile
from answerbus.request import Request
from answerbus.step import CallState, Composed, Step, StepCall, ToolEnded
from answerbus.tool_call import CallingAgent, ParentRef, ReplyPlace, ToolCallRecord, ToolCancel
from services.text.digest import record_digest, text_digest
from services.worker.core.run.children import child_record
from services.worker.core.run.made_child import Children
from services.worker.core.run.run import PROPOSE, Run, ToolCall, named
from services.worker.core.run.tool_access import ToolAccess

TOKEN_BYTES = 16
UNHASHED = "sha256:" + "0" * 64


@dataclass(frozen=True, slots=True)
class RunInputs:
    """What the course of a run depends on beside its state: request, place, time and chance.

    `is_ending`: the run was cancelled, or is late. Then it calls nothing more. `scope` is the
    workflow in the keys of the run's private records. Of a step: the `model` that was asked, in a
    prompt with this `frame` (see Prompt), and the `children` that were made of it. For children:
    the `origin` of the run's record, `attempts_left` to them, `problems_of` one that keep it from
    being asked, and the ids that are taken. Of a tool's result: `micro_usd_left` in the account
    (None: without limit). Of a person's decision: what the account has `spent`.
    """

    request: Request
    deadline: datetime
    partition: int
    now: datetime
    tools: ToolAccess
    problems_of: Callable[[Request], tuple[Problem, ...]]
    is_taken: Callable[[str], bool]
    is_ending: bool = False
    scope: str | None = None
    model: str | None = None
    frame: str | None = None
    children: Children = field(default_factory=dict)
    origin: Origin | None = None
    attempts_left: int = 0
    micro_usd_left: int | None = None
    spent: Spent = field(default_factory=Spent)


_Chained = TypeVar("_Chained", Step, ToolEnded)


def chained(event: _Chained, before: Link | None) -> tuple[_Chained, Link]:
    """The event, which is new, gets its hash; where the chain is then. It has that of `before`."""
    # For a large result less time than `model_dump` takes.
    digest = record_digest(from_json(event.model_dump_json()))
    number = before.number + 1 if before else 1
    event.__dict__["hash"] = digest  # it is frozen, and nobody else has it yet
    return event, Link(number=number, hash=digest)


def step_event(
    run: Run,
    record: RunStepRecord,
    states: tuple[CallState, ...],
    account: AccountState,
    inputs: RunInputs,
    chosen: str | None = None,
) -> tuple[Step, Link]:
    """What the step said and which tools it calls; of thoughts nothing."""
    request = inputs.request
    composed: Composed | None = None
    if run.composition:  # else a model may name a tool as it likes
        is_proposing = any(call.tool == PROPOSE for call in record.calls)
        composed = "select" if chosen else "propose" if is_proposing else None
    event = Step(
        # A step that has no attempt must not have the name of one.
        event_id=f"{request.request_id}.{composed or f'step.{record.attempt}'}",
        request_id=request.request_id,
        workflow_id=request.workflow_id,
        agent=run.agent,
        n=record.n,
        attempt=record.attempt,
        said=record.said,
        calls=tuple(
            StepCall(**named(call), state=state, policy=call.policy)
            for call, state in zip(record.calls, states, strict=True)
        ),
        usage=record.usage,
        account=account,
        composed=composed,
        chosen=chosen,
        at=inputs.now,
        previous=run.link.hash if run.link else None,
        hash=UNHASHED,
    )
    return chained(event, run.link)


def call_ended(
    before: Link | None,
    call: ToolCall,
    outcome: CallOutcome,
    inputs: RunInputs,
    micro_usd: int | None = None,
    *,
    reconciled: bool = False,
) -> tuple[ToolEnded, Link]:
    """The one end of a call, next in the chain, and what the account is charged for it."""
    request, call_record = inputs.request, call.asked
    called_at = call.record.called_at if call.record else None
    took = inputs.now - called_at if called_at else None
    event = ToolEnded(
        event_id=f"{call_record.call_id}.ended",
        request_id=request.request_id,
        workflow_id=request.workflow_id,
        call_id=call_record.call_id,
        tool=call_record.tool,
        outcome=outcome,
        took_ms=None if took is None else max(int(took / timedelta(milliseconds=1)), 0),
        micro_usd=micro_usd,
        reconciled=reconciled,
        edited=call.edited,
        at=inputs.now,
        previous=before.hash if before else None,
        hash=UNHASHED,
    )
    return chained(event, before)


def approval_requested(call: ToolCall, inputs: RunInputs) -> ApprovalRequested:
    """A person is asked for a call with these very arguments."""
    request, call_record = inputs.request, call.asked
    delivery, after_input = call.next_delivery, call.after_input
    place = f".{delivery}.{after_input}" if after_input else f".{delivery}" if delivery > 1 else ""
    return ApprovalRequested(
        event_id=f"{call_record.call_id}.approval{place}",
        request_id=request.request_id,
        workflow_id=request.workflow_id,
        call_id=call_record.call_id,
        tool=call_record.tool,
        args=call.args,
        args_digest=call.args_digest,
        delivery=delivery,
        after_input=after_input,
        expires_at=inputs.deadline,
        at=inputs.now,
    )


def delivered(
    run: Run, call: ToolCall, inputs: RunInputs
) -> tuple[ToolCallRecord | ToolContinue, RunCallRecord]:
    """The call for its tool server, under a token of its own, and what the run keeps of that.

    A server that goes on with it may be away for longer: the state waits for it in the topic.
    """
    request, call_record, tool = inputs.request, call.asked, run.tools[call.asked.tool]
    before = call.record or _record(call, inputs)
    reply = _reply_place(inputs)
    seconds = tool.card.timeout_s if before.state is None else TOOL_TIMEOUT_S_MAX
    due_at = min(inputs.now + timedelta(seconds=seconds), inputs.deadline)
    event = ToolCallRecord(
        call_id=call_record.call_id,
        delivery=call.next_delivery,
        request_id=request.request_id,
        workflow_id=request.workflow_id,
        agent=CallingAgent(name=run.agent.name, version=run.agent.version, digest=run.agent.digest),
        attempt=run.steps[-1].attempt,
        toolset=tool.toolset,
        tool=tool.card.name,
        args={},
        args_digest=call.args_digest,
        approved=before.approved,
        expires_at=due_at,
        reply=reply,
        parent=ParentRef(request_id=request.request_id, call_id=call_record.call_id),
        labels=request.labels,
        at=inputs.now,
    )
    # They are JSON: to find that out again takes a microsecond for each value.
    event = event.model_copy(update={"args": call.args})
    after = before.model_copy(
        update={
            "deliveries": before.deliveries + 1,
            "tokens": (*before.tokens, text_digest(reply.token)),
            "called_at": before.called_at or inputs.now,
            "due_at": due_at,
            "reconciliation": None,
        }
    )
    if before.state is None:
        return event, after
    return ToolContinue(call=event, state=before.state, given=before.given), after


def _reply_place(inputs: RunInputs) -> ReplyPlace:
    """Where a tool server is to answer, under a token of its own."""
    return ReplyPlace(
        topic=inputs.tools.reply_topic,
        partition=inputs.partition,
        key=inputs.request.workflow_id,
        token=base64.b64encode(inputs.tools.random_bytes(TOKEN_BYTES)).decode(),
    )


def reconcile(
    run: Run, call: ToolCall, number: int, expires_at: datetime, inputs: RunInputs
) -> ToolReconcile:
    """The question to a tool server whether the call had its effect."""
    request, tool = inputs.request, run.tools[call.asked.tool]
    return ToolReconcile(
        call_id=call.asked.call_id,
        question=number,
        request_id=request.request_id,
        workflow_id=request.workflow_id,
        toolset=tool.toolset,
        tool=tool.card.name,
        args=call.args,
        args_digest=call.args_digest,
        expires_at=expires_at,
        reply=_reply_place(inputs),
        at=inputs.now,
    )


def child_asked(
    run: Run, call: ToolCall, inputs: RunInputs
) -> tuple[RunChildRecord, RunCallRecord]:
    """The child that answers the call, and what the run keeps of that."""
    if inputs.origin is None:
        raise ValueError("a run that asks children has a record")
    child = child_record(
        inputs.request,
        run,
        call,
        inputs.origin,
        inputs.deadline,
        inputs.now,
        inputs.is_taken,
        inputs.children,
    )
    asked = changed(
        call, inputs, deliveries=1, called_at=inputs.now, child=child.request.request_id
    )
    return child, asked


def stop(run: Run, call: ToolCall, reason: str, inputs: RunInputs) -> ToolCancel:
    """The tool server need not go on, nor keep what it has for the call."""
    tool, state = run.tools[call.asked.tool], call.record.state if call.record else None
    return ToolCancel(
        call_id=call.asked.call_id,
        request_id=inputs.request.request_id,
        workflow_id=inputs.request.workflow_id,
        toolset=tool.toolset,
        tool=tool.card.name if state is not None else None,
        state=state,
        reason=reason,
        at=inputs.now,
    )


def _record(call: ToolCall, inputs: RunInputs) -> RunCallRecord:
    return RunCallRecord(
        workflow_id=inputs.scope,
        request_id=inputs.request.request_id,
        n=call.n,
        place=call.place,
    )


def changed(call: ToolCall, inputs: RunInputs, **changes: object) -> RunCallRecord:
    """The record of a call with some members changed."""
    return (call.record or _record(call, inputs)).model_copy(update=changes)
