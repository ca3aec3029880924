"""Spans, GenAI metrics and events for a collector, sent by threads of OpenTelemetry's SDK."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from threading import Thread
from types import MappingProxyType
from typing import Any, Literal, Self

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, LogRecordExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
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
from requests import PreparedRequest, Response, Session, TooManyRedirects

from answerbus.trace import Trace
from services.telemetry.span import Attributes, Span

EXPORT_TIMEOUT_S = 5.0
CLOSE_S_MAX = 8.0
ANSWER_BYTES_MAX = 64 * 1024
METRICS_EVERY_MS = 15_000
EVALUATION = "gen_ai.evaluation.result"
# As the semantic conventions advise.
DURATION_BOUNDS_S = tuple(0.01 * 2**power for power in range(14))
TOKEN_BOUNDS = tuple(4**power for power in range(14))

_log = logging.getLogger(__name__)


class Otlp:
    """Takes what is over and returns at once; `close` sends what is left, within seconds."""

    def __init__(self, endpoint: str, instance: str) -> None:
        resource = _resource("answerbus-worker", instance)
        self._spans = _Spans(_span_exporter(endpoint), resource)
        metrics = OTLPMetricExporter(
            _address(endpoint, "metrics"), timeout=EXPORT_TIMEOUT_S, session=_Session()
        )
        reader = PeriodicExportingMetricReader(metrics, METRICS_EVERY_MS)
        self._metrics = MeterProvider([reader], resource, shutdown_on_exit=False)
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
                self._spans.send(span)

    def call(self, duration_s: float, attributes: Attributes) -> None:
        """Record how long a call took."""
        with _apart():
            self._duration.record(duration_s, attributes)

    def tokens(self, kind: Literal["input", "output"], count: int, attributes: Attributes) -> None:
        with _apart():
            self._tokens.record(count, {**attributes, "gen_ai.token.type": kind})

    def close(self) -> None:
        """Blocks, for seconds at most."""
        _end(self._spans.close, self._metrics.shutdown)


class OtlpEvaluations:
    """Calls as spans, and what was found of their answers as events below them."""

    def __init__(self, spans: SpanExporter, logs: LogRecordExporter, instance: str) -> None:
        resource = _resource("answerbus-compare", instance)
        self._spans = _Spans(spans, resource)
        self._logs = LoggerProvider(resource, shutdown_on_exit=False)
        self._logs.add_log_record_processor(BatchLogRecordProcessor(logs))
        self._logger = self._logs.get_logger("answerbus")

    @classmethod
    def at(cls, endpoint: str, instance: str) -> Self:
        """Sent to a collector."""
        logs = OTLPLogExporter(
            _address(endpoint, "logs"), timeout=EXPORT_TIMEOUT_S, session=_Session()
        )
        return cls(_span_exporter(endpoint), logs, instance)

    def evaluated(self, call: Span, results: Iterable[Attributes]) -> None:
        """Send a call with the results of its evaluation."""
        with _apart():
            self._spans.send(call)
            for attributes in results:
                record = LogRecord(
                    timestamp=_ns(call.end),
                    context=_around(call.trace),
                    severity_number=SeverityNumber.INFO,
                    event_name=EVALUATION,
                    attributes=attributes,
                )
                self._logger.emit(record)

    def close(self) -> None:
        """Blocks, for seconds at most."""
        _end(self._spans.close, self._logs.shutdown)


class _Spans:
    """Sends spans under the ids that they have."""

    def __init__(self, exporter: SpanExporter, resource: Resource) -> None:
        self._ids = _Named()
        self._traces = TracerProvider(
            sampler=ALWAYS_ON, resource=resource, id_generator=self._ids, shutdown_on_exit=False
        )
        self._traces.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._traces.get_tracer("answerbus")

    def close(self) -> None:
        self._traces.shutdown()

    def send(self, span: Span) -> None:
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


def _resource(service: str, instance: str) -> Resource:
    own = Resource({"service.name": service, "service.instance.id": instance})
    return own.merge(OTELResourceDetector().detect())


def _span_exporter(endpoint: str) -> OTLPSpanExporter:
    return OTLPSpanExporter(
        _address(endpoint, "traces"), timeout=EXPORT_TIMEOUT_S, session=_Session()
    )


def _address(endpoint: str, signal: Literal["traces", "metrics", "logs"]) -> str:
    return f"{endpoint.rstrip('/')}/v1/{signal}"


class _Session(Session):
    """Reads a limited part of an answer; without this, all of it is kept in memory."""

    def send(self, request: PreparedRequest, **options: Any) -> Response:
        response = super().send(request, **{**options, "stream": True})
        response.raw.read(ANSWER_BYTES_MAX)
        response.close()
        if response.is_redirect:  # which the SDK would take for a success
            raise TooManyRedirects("the collector redirects: name its final address")
        return response

    def get_redirect_target(self, resp: Response) -> str | None:  # noqa: ARG002
        """To nowhere: of a redirect, followed or not, the base reads all that comes."""
        return None


def _end(*shutdowns: Callable[[], None]) -> None:
    """The SDK waits for a collector that does not answer, for half a minute and longer."""
    threads = [Thread(target=shutdown, daemon=True) for shutdown in shutdowns]
    for thread in threads:
        thread.start()
    until = time.monotonic() + CLOSE_S_MAX
    for thread in threads:
        thread.join(max(until - time.monotonic(), 0.0))


@contextmanager
def _apart() -> Iterator[None]:
    """An error in the SDK must not cost a lane."""
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
