"""The work of lanes as spans with OpenTelemetry's GenAI names, content as far as it is wanted."""

from datetime import datetime, timedelta
from typing import Literal, Protocol

from answerbus.dead_letter import DeadLetter
from answerbus.outcome import RetryRequest
from answerbus.step import ToolEnded
from services.telemetry.span import Attributes, Span
from services.worker.adapters.telemetry import span_attributes
from services.worker.adapters.telemetry.span_content import SpanContent
from services.worker.core.outcome.call import Call
from services.worker.core.outcome.decision import Decision, NextStep, Wait, attempt_outcome
from services.worker.core.request.lane_request import LaneRequest
from services.worker.core.run.children import Ended
from services.worker.planning.planner import Planner
from services.worker.ports.observer import Observer


class Exporter(Protocol):
    def span(self, span: Span) -> None: ...

    def call(self, duration_s: float, attributes: Attributes) -> None:
        """Record how long a call took."""
        ...

    def tokens(
        self, kind: Literal["input", "output"], count: int, attributes: Attributes
    ) -> None: ...


class SpanObserver(Observer):
    """See observer.Observer: a span for each attempt, under one for its request."""

    def __init__(self, exporter: Exporter, planner: Planner, content: SpanContent) -> None:
        self._exporter, self._planner, self._content = exporter, planner, content

    def settled(self, call: Call, decision: Decision, now: datetime) -> None:
        self._report_numbers(call)
        self._report_call(call, attempt_outcome(decision), now)
        match decision:
            case Wait() | RetryRequest() | NextStep():
                pass
            case _:
                self._end(call.lane_request, decision, now)

    def dead_lettered(self, lane_request: LaneRequest, dead_letter: DeadLetter) -> None:
        self._end(lane_request, dead_letter, dead_letter.at)

    def call_ended(self, lane_request: LaneRequest, tool: str, end: ToolEnded) -> None:
        """From the call's first delivery; what was not called has no span.

        Spans of tool servers, and of the request that it asks, are below it.
        """
        trace = lane_request.trace_of_call(end.call_id)
        if end.took_ms is None or not trace.is_sampled:
            return
        self._exporter.span(
            Span(
                name=f"execute_tool {tool}",
                kind="internal",
                trace=trace,
                parent=lane_request.trace,
                start=end.at - timedelta(milliseconds=end.took_ms),
                end=end.at,
                attributes={
                    **span_attributes.of_tool_call(tool, end),
                    **self._content.of_tool_call(lane_request, end),
                },
                failed=end.outcome.kind != "ok",
            )
        )

    def _report_numbers(self, call: Call) -> None:
        labels: dict[str, str] = span_attributes.of_chat(call)
        error = span_attributes.error_of(call)
        failed = {"error.type": error} if error else {}
        self._exporter.call(call.duration_ms / 1000, labels | failed)
        if call.usage.input_tokens is not None:
            self._exporter.tokens("input", call.usage.input_tokens, labels)
        if call.usage.output_tokens is not None:
            self._exporter.tokens("output", call.usage.output_tokens, labels)

    def _report_call(self, call: Call, outcome: str, now: datetime) -> None:
        lane_request, spend = call.lane_request, call.spend
        trace = lane_request.incoming_trace.child(f"{spend.request_id}.attempt.{spend.attempt}")
        if not trace.is_sampled:
            return
        self._exporter.span(
            Span(
                name=f"chat {call.plan.profile.model}",
                kind="client",
                trace=trace,
                parent=lane_request.trace,
                start=now - timedelta(milliseconds=call.duration_ms),
                end=now,
                attributes={
                    **span_attributes.of_call(call, outcome),
                    **self._content.of_call(call),
                },
                failed=span_attributes.error_of(call) is not None,
            )
        )

    def _end(self, lane_request: LaneRequest, ended: Ended, now: datetime) -> None:
        trace, agent = lane_request.trace, lane_request.request.agent
        if not trace.is_sampled:
            return
        backend = self._planner.backends.get(lane_request.request.profile)
        began_here = lane_request.incoming_trace == trace
        self._exporter.span(
            Span(
                name=f"invoke_agent {agent.name}" if agent else "answer request",
                kind="internal" if agent else "consumer",
                trace=trace,
                parent=None if began_here else lane_request.incoming_trace,
                start=lane_request.origin.timestamp,
                end=max(now, lane_request.origin.timestamp),
                attributes={
                    **span_attributes.of_request(
                        lane_request, backend.facts if backend else None, ended
                    ),
                    **self._content.of_run(lane_request, ended),
                },
                failed=isinstance(ended, DeadLetter),
            )
        )
