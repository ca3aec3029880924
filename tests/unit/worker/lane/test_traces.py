"""One trace from upstream's header over every attempt to the terminal, through kills and owners."""

import json

import pytest

from answerbus.envelope import Headers
from answerbus.limits import ENVELOPE_EXTRA_BYTES_MAX
from answerbus.topics import ATTEMPTS, DEAD_LETTERS, REQUESTS, RESULTS, RETRIES, Topic
from answerbus.trace import Trace, new_trace, read_trace
from answerbus.wire import format_timestamp
from services.worker.core.attempt.reply import Reply
from tests.unit.worker.builders import TOPIC, answered, body, workflow_of
from tests.unit.worker.lane.fakes import Broker
from tests.unit.worker.lane.virtual import on_virtual_time
from tests.unit.worker.lane.world import FakeProvider, Worker, context, done, until

UPSTREAM = Trace("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", 1, "shop=1")
ODD: Headers = [("traceparent", b"00-xyz")]


def bad_then_good(request_id: str, attempt: int) -> tuple[float, Reply]:
    return 1.0, answered("no JSON" if attempt == 1 else '{"n": 1}')


def as_headers(trace: Trace) -> Headers:
    return [(name, text.encode()) for name, text in trace.headers().items()]


def publish(broker: Broker, request_id: str, headers: Headers, partition: int = 0) -> int:
    inline = {"kind": "inline", "name": "n", "wrapped": False, "json_schema": {"type": "object"}}
    asked = body(request_id, workflow_of(0), answer_schema=inline, budget={"attempts": 2})
    return broker.publish(json.dumps(asked).encode(), partition, headers)


def traces(broker: Broker, topic: Topic) -> list[Trace | None]:
    return [read_trace(r.headers) for r in broker.log(topic).records if r.value is not None]


def new_run(broker: Broker, offset: int, request_id: str, partition: int = 0) -> Trace:
    """The trace of a request that came with none."""
    at = format_timestamp(broker.log(REQUESTS, partition).records[offset].at)
    return new_trace(f"{TOPIC}/{partition}/{offset}/{at}", request_id)


@pytest.mark.parametrize("dies", [False, True], ids=["", "its worker dies between the attempts"])
@pytest.mark.parametrize("came", [as_headers(UPSTREAM), ODD, []], ids=["named", "odd", "none"])
@on_virtual_time
async def test_retries_attempts_and_result_are_of_one_trace(*, came: Headers, dies: bool) -> None:
    broker = Broker()

    offset = publish(broker, "r-1", came)
    worker = Worker(broker, context(FakeProvider(bad_then_good), "one"))
    await worker.open()
    if dies:
        await until(lambda: bool(traces(broker, RETRIES)))
        await worker.crash()
        worker = Worker(broker, context(FakeProvider(bad_then_good), "two"))
        await worker.open()
    await until(lambda: done(broker, ["r-1"]))
    await worker.drain()
    first = read_trace(came) or new_run(broker, offset, "r-1")

    assert traces(broker, RETRIES) == [first]
    assert traces(broker, ATTEMPTS) == [
        first.child("r-1.attempt.1"),
        first.child("r-1.attempt.2"),
    ]
    assert traces(broker, RESULTS) == [first.child("r-1")]


@on_virtual_time
async def test_a_call_that_died_with_its_worker_is_of_the_trace_that_its_retry_kept() -> None:
    broker = Broker()

    publish(broker, "r-1", as_headers(UPSTREAM))
    asks = FakeProvider(bad_then_good)
    worker = Worker(broker, context(asks, "one"))
    await worker.open()
    await until(lambda: asks.made_for("r-1") == [1, 2])
    await worker.crash()
    worker = Worker(broker, context(asks, "two"))
    await worker.open()
    await until(lambda: done(broker, ["r-1"]))
    await worker.drain()

    named = [UPSTREAM.child(f"r-1.attempt.{number}") for number in (1, 2)]
    assert traces(broker, ATTEMPTS) == named
    assert traces(broker, DEAD_LETTERS) == [UPSTREAM.child("r-1")]  # two were all it had


@on_virtual_time
async def test_a_dead_letter_names_the_trace_of_its_request_or_of_its_record() -> None:
    broker = Broker()

    broker.publish(b"no JSON", 0, as_headers(UPSTREAM))
    publish(broker, "r-1", as_headers(UPSTREAM))
    asks = FakeProvider(lambda *_: (1.0, answered("no JSON")))
    worker = Worker(broker, context(asks))
    await worker.open()
    await until(lambda: done(broker, ["r-1"]))
    await worker.drain()

    places = [f"{TOPIC}-0-0", "r-1"]
    assert traces(broker, DEAD_LETTERS) == [UPSTREAM.child(place) for place in places]


LARGE: Headers = [("large", b"x" * ENVELOPE_EXTRA_BYTES_MAX)]  # too much to be forwarded


@pytest.mark.parametrize(
    "came",
    [as_headers(UPSTREAM), [*as_headers(UPSTREAM), *LARGE], []],
    ids=["named", "among many", "none"],
)
@on_virtual_time
async def test_a_forwarded_request_keeps_its_trace(came: Headers) -> None:
    broker = Broker()

    offset = publish(broker, "r-1", came, partition=1)
    worker = Worker(broker, context(FakeProvider(bad_then_good)))
    worker.assign(0, 1)
    await until(lambda: done(broker, ["r-1"]))
    await worker.drain()
    first = read_trace(came) or new_run(broker, offset, "r-1", partition=1)

    assert traces(broker, RESULTS) == [first.child("r-1")]
