"""Spans and GenAI metrics for an OpenTelemetry collector, sent by threads of the SDK's own."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from types import MappingProxyType
from typing import Literal

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
    set_span_in_context,
)

from answerbus.trace import Trace
from services.telemetry.span import Attributes, Span

EXPORT_TIMEOUT_S = 5.0
METRICS_EVERY_MS = 15_000
# As the semantic conventions advise.
DURATION_BOUNDS_S = tuple(0.01 * 2**power for power in range(14))
TOKEN_BOUNDS = tuple(4**power for power in range(14))

_log = logging.getLogger(__name__)


class Otlp:
    """Takes what is over and returns at once; `close` sends what is left, within seconds."""

    def __init__(self, endpoint: str, instance: str) -> None:
        resource = Resource(
            {"service.name": "answerbus-worker", "service.instance.id": instance}
        ).merge(OTELResourceDetector().detect())
        base = endpoint.rstrip("/")
        self._ids = _Named()
        self._traces = TracerProvider(
            sampler=ALWAYS_ON, resource=resource, id_generator=self._ids, shutdown_on_exit=False
        )
        spans = OTLPSpanExporter(f"{base}/v1/traces", timeout=EXPORT_TIMEOUT_S)
        self._traces.add_span_processor(BatchSpanProcessor(spans))
        metrics = OTLPMetricExporter(f"{base}/v1/metrics", timeout=EXPORT_TIMEOUT_S)
        reader = PeriodicExportingMetricReader(metrics, METRICS_EVERY_MS)
        self._metrics = MeterProvider([reader], resource, shutdown_on_exit=False)
        self._tracer = self._traces.get_tracer("answerbus")
        meter = self._metrics.get_meter("answerbus")
        self._duration = meter.create_histogram(
            "gen_ai.client.operation.duration",
            "s",
            "GenAI operation duration.",
            explicit_bucket_boundaries_advisory=DURATION_BOUNDS_S,
        )
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=TOKEN_BOUNDS,
        )

    def span(self, span: Span) -> None:
        """Send a span, unless the trace's origin does not want it."""
        if span.trace.is_sampled:
            with _apart():
                self._send(span)

    def call(self, duration_s: float, attributes: Attributes) -> None:
        """Record how long a call took."""
        with _apart():
            self._duration.record(duration_s, attributes)

    def tokens(self, kind: Literal["input", "output"], count: int, attributes: Attributes) -> None:
        with _apart():
            self._tokens.record(count, {**attributes, "gen_ai.token.type": kind})

    def close(self) -> None:
        """Blocks, for seconds at most."""
        self._traces.shutdown()
        self._metrics.shutdown(EXPORT_TIMEOUT_S * 1_000)

    def _send(self, span: Span) -> None:
        self._ids.trace_id, self._ids.span_id = span.trace.trace_id, span.trace.span_id
        begun = self._tracer.start_span(
            span.name,
            context=None if span.parent is None else _around(span.parent),
            kind=_KINDS[span.kind],
            attributes=span.attributes,
            start_time=_ns(span.start),
        )
        if span.failed:
            begun.set_status(Status(StatusCode.ERROR))
        begun.end(_ns(span.end))


_KINDS: Mapping[str, SpanKind] = MappingProxyType(
    {
        "client": SpanKind.CLIENT,
        "consumer": SpanKind.CONSUMER,
        "internal": SpanKind.INTERNAL,
    }
)


@contextmanager
def _apart() -> Iterator[None]:
    """An error in the SDK is no reason to lose a lane."""
    try:
        yield
    except Exception:
        _log.exception("telemetry was not sent")


class _Named(IdGenerator):
    """Ids are derived, not drawn: a span has the same id on every worker that reports it."""

    trace_id = span_id = ""

    def generate_span_id(self) -> int:
        return int(self.span_id, 16)

    def generate_trace_id(self) -> int:
        return int(self.trace_id, 16)


def _around(trace: Trace) -> Context:
    span = SpanContext(
        int(trace.trace_id, 16),
        int(trace.span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(trace.flags),
        trace_state=TraceState.from_header([trace.state] if trace.state else []),
    )
    return set_span_in_context(NonRecordingSpan(span))


def _ns(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000) * 1_000_000
