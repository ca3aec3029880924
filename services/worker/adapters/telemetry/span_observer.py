"""The work of lanes as spans with OpenTelemetry's GenAI names; ids and counts, never content."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal, Protocol

from answerbus.attempt import Attempt
from answerbus.dead_letter import DeadLetter
from answerbus.outcome import RetryRequest
from answerbus.step import ToolEnded
from services.telemetry.span import Attributes, Span, genai_provider
from services.worker.core.attempt.reply import Rejected, facts_of
from services.worker.core.budget.account import Spend
from services.worker.core.outcome.call import Call
from services.worker.core.outcome.decision import Decision, NextStep, Wait, attempt_outcome
from services.worker.core.request.lane_request import LaneRequest


class Exporter(Protocol):
    def span(self, span: Span) -> None: ...

    def call(self, duration_s: float, attributes: Attributes) -> None:
        """Record how long a call took."""
        ...

    def tokens(
        self, kind: Literal["input", "output"], count: int, attributes: Attributes
    ) -> None: ...


class SpanObserver:
    """See observer.Observer: a span for each attempt, under one for its request."""

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter

    def settled(self, call: Call, decision: Decision, now: datetime) -> None:
        self._tell_numbers(call)
        lane_request, spend = call.lane_request, call.spend
        self._exporter.span(
            Span(
                name=f"chat {call.plan.profile.model}",
                kind="client",
                trace=lane_request.incoming_trace.child(
                    f"{spend.request_id}.attempt.{spend.attempt}"
                ),
                parent=lane_request.trace,
                start=now - timedelta(milliseconds=call.duration_ms),
                end=now,
                attributes=_of_call(call) | {"answerbus.outcome": attempt_outcome(decision)},
                failed=_error(call) is not None,
            )
        )
        match decision:
            case Wait() | RetryRequest() | NextStep():
                pass
            case _:
                self._end(lane_request, decision.kind, now)

    def dead_lettered(self, lane_request: LaneRequest, dead_letter: DeadLetter) -> None:
        self._end(lane_request, dead_letter.kind, dead_letter.at)

    def admitted(self, lane_request: LaneRequest) -> None:
        """Its span is sent when it is over."""

    def rejected(self, dead_letter: DeadLetter) -> None:
        """It never was a request."""

    def stepped(self, lane_request: LaneRequest) -> None:
        """There was no call."""

    def released(self, lane_request: LaneRequest, spend: Spend) -> None:
        """There was no call."""

    def call_ended(self, lane_request: LaneRequest, tool: str, end: ToolEnded) -> None:
        """From the call's first delivery; what was not called has no span.

        Spans of tool servers are below it.
        """
        if end.took_ms is None:
            return
        kind = end.outcome.kind
        error = {} if kind == "ok" else {"error.type": kind}
        self._exporter.span(
            Span(
                name=f"execute_tool {tool}",
                kind="internal",
                trace=lane_request.trace_of_call(end.call_id),
                parent=lane_request.trace,
                start=end.at - timedelta(milliseconds=end.took_ms),
                end=end.at,
                attributes={
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": tool,
                    "gen_ai.tool.call.id": end.call_id,
                    "gen_ai.conversation.id": end.workflow_id,
                    "answerbus.request.id": end.request_id,
                    "answerbus.outcome": kind,
                    **error,
                },
                failed=bool(error),
            )
        )

    def opened(self, partition: int, left_over: Sequence[Attempt]) -> None:
        """How long a call took that died with its worker is not known."""

    def committed(self, took_s: float) -> None:
        """Of many requests at once."""

    def lost(self) -> None:
        """Of many requests at once."""

    def _tell_numbers(self, call: Call) -> None:
        labels: dict[str, str] = _of_profile(call)
        error = _error(call)
        failed = {"error.type": error} if error else {}
        self._exporter.call(call.duration_ms / 1000, labels | failed)
        if call.usage.input_tokens is not None:
            self._exporter.tokens("input", call.usage.input_tokens, labels)
        if call.usage.output_tokens is not None:
            self._exporter.tokens("output", call.usage.output_tokens, labels)

    def _end(self, lane_request: LaneRequest, kind: str, now: datetime) -> None:
        began_here = lane_request.incoming_trace == lane_request.trace
        agent = lane_request.request.agent
        self._exporter.span(
            Span(
                name=f"invoke_agent {agent.name}" if agent else "answer request",
                kind="consumer",
                trace=lane_request.trace,
                parent=None if began_here else lane_request.incoming_trace,
                start=lane_request.origin.timestamp,
                end=max(now, lane_request.origin.timestamp),
                attributes=_of_request(lane_request) | {"answerbus.outcome": kind},
                failed=kind == "dead_letter",
            )
        )


def _of_profile(call: Call) -> dict[str, str]:
    profile = call.plan.profile
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": genai_provider(profile.provider),
        "gen_ai.request.model": profile.model,
    }


def _of_call(call: Call) -> dict[str, str | int | float | bool | Sequence[str]]:
    facts, usage, error = facts_of(call.reply), call.usage, _error(call)
    known: dict[str, str | int | bool | Sequence[str] | None] = {
        "gen_ai.request.max_tokens": call.prompt.max_output_tokens,
        "gen_ai.output.type": "text" if call.plan.schema.schema is None else "json",
        "gen_ai.response.model": call.model.model if facts.model else None,
        "gen_ai.response.finish_reasons": (facts.stop_reason,) if facts.stop_reason else None,
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
        "gen_ai.conversation.id": call.lane_request.request.workflow_id,
        "error.type": error,
        "answerbus.profile": call.plan.profile.name,
        "answerbus.request.id": call.spend.request_id,
        "answerbus.attempt": call.spend.attempt,
        "answerbus.attempt.counted": call.is_counted,
    }
    attributes = {name: value for name, value in known.items() if value is not None}
    return {**_of_profile(call), **attributes}


def _of_request(lane_request: LaneRequest) -> dict[str, str | int | float | bool | Sequence[str]]:
    request, origin, agent = lane_request.request, lane_request.origin, lane_request.request.agent
    of_agent: dict[str, str] = {}
    if agent:
        of_agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agent.name}
    return {
        **of_agent,
        "gen_ai.conversation.id": request.workflow_id,
        "messaging.system": "kafka",
        "messaging.operation.type": "process",
        "messaging.destination.name": origin.topic,
        "messaging.destination.partition.id": str(origin.partition),
        "messaging.kafka.offset": origin.offset,
        "answerbus.request.id": request.request_id,
        "answerbus.workflow.id": request.workflow_id,
        "answerbus.profile": request.profile,
    }


def _error(call: Call) -> str | None:
    """The kind of what went wrong, if anything did."""
    match call.reply:
        case Rejected():
            return "rejected"
        case _:
            return call.failure.kind if call.failure else None
