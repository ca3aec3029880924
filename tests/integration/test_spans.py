"""What a collector is sent: one trace from the span of upstream over all attempts to the end."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from answerbus.client import Client
from answerbus.request import Request
from answerbus.topics import ATTEMPTS, RESULTS
from answerbus.trace import Trace, read_trace
from tests.integration.bus import DEP_BUMP, Bus, request

pytestmark = pytest.mark.kafka

UPSTREAM = Trace("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", 1, "shop=1")
UNWANTED = Trace("1af7651916cd43dd8448eb211c80319c", "c7ad6b7169203331", 0)
SECRET = "tell-nobody"


@dataclass
class Collector:
    """Keeps the spans and metrics that it is sent."""

    spans: dict[str, dict[str, Any]] = field(default_factory=dict)
    metrics: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    raw: bytes = b""
    address: str = ""

    async def take_spans(self, called: web.Request) -> web.Response:
        sent = ExportTraceServiceRequest.FromString(await self._body(called))
        for resource in sent.resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self.spans[span.span_id.hex()] = {
                        "name": span.name,
                        "trace": span.trace_id.hex(),
                        "parent": span.parent_span_id.hex(),
                        "attributes": plain(span.attributes),
                        "failed": span.status.code == 2,
                        "lasted_ns": span.end_time_unix_nano - span.start_time_unix_nano,
                    }
        return web.Response()

    async def take_metrics(self, called: web.Request) -> web.Response:
        sent = ExportMetricsServiceRequest.FromString(await self._body(called))
        for resource in sent.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    self.metrics[metric.name] = [
                        {**plain(point.attributes), "count": point.count, "sum": point.sum}
                        for point in metric.histogram.data_points
                    ]
        return web.Response()

    async def _body(self, called: web.Request) -> bytes:
        body = await called.read()
        opened = gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body
        self.raw += opened
        return opened


def plain(attributes: Any) -> dict[str, Any]:
    return {pair.key: value_of(pair.value) for pair in list[KeyValue](attributes)}


def value_of(value: AnyValue) -> Any:
    which = value.WhichOneof("value")
    if which == "array_value":
        return [value_of(item) for item in value.array_value.values]
    return getattr(value, str(which))


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    collector = Collector()
    application = web.Application()
    application.router.add_post("/v1/traces", collector.take_spans)
    application.router.add_post("/v1/metrics", collector.take_metrics)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    collector.address = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield collector
    await runner.cleanup()


async def test_a_collector_is_sent_one_trace_and_no_content(bus: Bus, collector: Collector) -> None:
    usage = {"input_tokens": 12, "output_tokens": 3}
    bad = {"kind": "answered", "content": f"{SECRET} {{", "usage": usage}
    good = {"kind": "answered", "json": DEP_BUMP | {"rationale": SECRET}, "usage": usage}
    rules: list[dict[str, Any]] = [{"when": {"attempt": 1}, "reply": bad}, {"reply": good}]
    settings = bus.config(rules, f'[telemetry]\notlp_endpoint = "{collector.address}"\n')
    worker = await asyncio.to_thread(bus.start_worker, settings)
    async with Client(bus.bootstrap, topic_prefix=bus.prefix) as client:
        for trace, name in ((UPSTREAM, "wanted"), (UNWANTED, "unwanted"), (None, "unnamed")):
            body = request(name, f"order-{name}", instructions=SECRET)
            await client.publish(Request.model_validate_json(json.dumps(body)), trace=trace)
    await bus.terminals(3)
    assert await asyncio.to_thread(worker.terminate) == 0

    assert SECRET.encode() not in collector.raw
    spans = {s["attributes"]["answerbus.request.id"]: s for s in collector.spans.values()}
    assert set(spans) == {"wanted", "unnamed"}
    of_wanted = {i: s for i, s in collector.spans.items() if s["trace"] == UPSTREAM.trace_id}
    request_span = UPSTREAM.child("wanted").span_id
    first, second = (UPSTREAM.child(f"wanted.attempt.{n}").span_id for n in (1, 2))
    assert {i: s["parent"] for i, s in of_wanted.items()} == {
        request_span: UPSTREAM.span_id,
        first: request_span,
        second: request_span,
    }
    assert of_wanted[first]["attributes"] == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "scripted",
        "gen_ai.request.max_tokens": 4096,
        "gen_ai.output.type": "json",
        "gen_ai.response.model": "scripted",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 12,
        "gen_ai.usage.output_tokens": 3,
        "gen_ai.conversation.id": "order-wanted",
        "error.type": "malformed",
        "answerbus.profile": "default",
        "answerbus.request.id": "wanted",
        "answerbus.attempt": 1,
        "answerbus.attempt.counted": True,
        "answerbus.outcome": "retry",
    }
    assert [of_wanted[i]["failed"] for i in (first, second, request_span)] == [True, False, False]
    assert of_wanted[second]["attributes"]["answerbus.outcome"] == "result"
    assert of_wanted[request_span]["attributes"]["answerbus.workflow.id"] == "order-wanted"
    assert of_wanted[request_span]["lasted_ns"] >= of_wanted[first]["lasted_ns"]
    (root,) = (s for s in collector.spans.values() if not s["parent"])
    assert root["attributes"]["answerbus.request.id"] == "unnamed"

    (failed, served) = sorted(
        collector.metrics["gen_ai.client.operation.duration"], key=lambda p: "error.type" not in p
    )
    assert (failed["error.type"], failed["count"], served["count"]) == ("malformed", 3, 3)
    tokens = {p["gen_ai.token.type"]: p for p in collector.metrics["gen_ai.client.token.usage"]}
    assert (tokens["input"]["sum"], tokens["output"]["sum"]) == (72, 18)

    fields = {r.key: read_trace(r.headers) for r in await bus.records(RESULTS)}
    assert fields[b"order-wanted"] == UPSTREAM.child("wanted")
    assert fields[b"order-unwanted"] == UNWANTED.child("unwanted")
    attempts = [read_trace(record.headers) for record in await bus.records(ATTEMPTS)]
    assert {a.span_id for a in attempts if a and a.trace_id == UPSTREAM.trace_id} == {first, second}


async def test_content_is_sent_where_it_is_wanted(bus: Bus, collector: Collector) -> None:
    answer = DEP_BUMP | {"rationale": "Its tests pass."}
    rules = [{"reply": {"kind": "answered", "json": answer}}]
    told = f'[telemetry]\notlp_endpoint = "{collector.address}"\ncontent = "redacted"\n'
    worker = await asyncio.to_thread(bus.start_worker, bus.config(rules, told))
    async with Client(bus.bootstrap, topic_prefix=bus.prefix) as client:
        body = request("r", "order", instructions=f"Write to ann@acme.example: {SECRET}.")
        await client.publish(Request.model_validate_json(json.dumps(body)))
    await bus.terminals(1)
    assert await asyncio.to_thread(worker.terminate) == 0

    (chat,) = (s for s in collector.spans.values() if s["name"].startswith("chat"))
    assert f"Write to ***: {SECRET}." in chat["attributes"]["gen_ai.system_instructions"]
    (message,) = json.loads(chat["attributes"]["gen_ai.output.messages"])
    assert json.loads(message["parts"][0]["content"]) == answer
